//! `titles`: `id`, `title`, seeded. A third of them are near copies of an earlier one.

use arrow::array::StringArray;
use rand::Rng;
use rand::rngs::StdRng;

use super::support::table::{Table, Values, seeded};

/// Different words, but for chance.
const VOCABULARY: usize = 20_000;

/// The first `rows` titles: 5 to 12 words of 3 to 9 small letters, the i-th word of the vocabulary with a frequency of
/// about 1 / i. A near copy has one letter changed, or a word added at the end; it may be of another near copy.
pub fn titles(rows: usize) -> Table {
    let mut random = seeded(42);
    let vocabulary: Vec<String> = (0..VOCABULARY)
        .map(|_| {
            let letters: usize = random.random_range(3..=9);
            (0..letters).map(|_| letter(&mut random)).collect()
        })
        .collect();
    let mut titles: Vec<String> = Vec::with_capacity(rows);
    for row in 0..rows {
        let title = if row > 0 && random.random_ratio(1, 3) {
            let earlier = &titles[random.random_range(0..row)];
            near_copy(earlier, &vocabulary, &mut random)
        } else {
            let words: usize = random.random_range(5..=12);
            let words: Vec<&str> = (0..words).map(|_| word(&vocabulary, &mut random)).collect();
            words.join(" ")
        };
        titles.push(title);
    }
    Table::new("titles")
        .with("id", Values::Int32((0..rows as i32).collect()))
        .with("title", Values::Text(StringArray::from(titles)))
}

fn near_copy(title: &str, vocabulary: &[String], random: &mut StdRng) -> String {
    if random.random_bool(0.5) {
        return format!("{title} {}", word(vocabulary, random));
    }
    let letters = title.as_bytes();
    let (at, old) = loop {
        let at = random.random_range(0..letters.len());
        if letters[at] != b' ' {
            break (at, letters[at]);
        }
    };
    let new = b'a' + (old - b'a' + random.random_range(1..26_u8)) % 26;
    let (before, after) = (&title[..at], &title[at + 1..]);
    format!("{before}{}{after}", char::from(new))
}

fn letter(random: &mut StdRng) -> char {
    char::from(random.random_range(b'a'..=b'z'))
}

/// By a uniform logarithm of its place.
fn word<'a>(vocabulary: &'a [String], random: &mut StdRng) -> &'a str {
    let end = vocabulary.len() as f64 + 1.0;
    let place = end.powf(random.random::<f64>()) as usize;
    &vocabulary[(place - 1).min(vocabulary.len() - 1)]
}
