//! The messages that pages quote against the sources: each is the text of a string literal.

use crate::docs::sources::{MEMBERS, files, literals, text_of, texts_of_python};

/// Pages, in whose tables a row that begins with code begins with messages.
pub(super) const PAGES: [(&str, &str); 5] = [
    (
        "reasons.md",
        include_str!("../../../docs/reference/reasons.md"),
    ),
    (
        "errors.md",
        include_str!("../../../docs/reference/errors.md"),
    ),
    (
        "messages.md",
        include_str!("../../../docs/reference/messages.md"),
    ),
    (
        "troubleshooting.md",
        include_str!("../../../docs/guide/troubleshooting.md"),
    ),
    ("gpu.md", include_str!("../../../docs/guide/gpu.md")),
];

/// What the text of DataFusion's own messages begins with.
const OF_DATAFUSION: &str = "Resources exhausted";

/// Stands for what differs: in a message of a page for any text, in a literal for a value of one word.
const HOLE: char = '\0';

/// The code in the first columns of a page's tables.
pub(super) fn messages(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row[2..].split(" |").next().unwrap_or_default());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

/// A message of a page. What differs is `…` there, or a capital letter by itself.
fn of_page(message: &str) -> Vec<char> {
    let characters: Vec<char> = message.chars().collect();
    let is_word = |i: Option<usize>| {
        let character = i.and_then(|i| characters.get(i));
        character.is_some_and(|c| c.is_alphanumeric() || *c == '_')
    };
    let holes = characters.iter().enumerate().map(|(i, character)| {
        let alone = !is_word(i.checked_sub(1)) && !is_word(Some(i + 1));
        match *character == '…' || (character.is_ascii_uppercase() && alone) {
            true => HOLE,
            false => *character,
        }
    });
    holes.collect()
}

/// A literal, most of which are formats: what differs is in braces.
fn of_source(literal: &str) -> Vec<char> {
    let mut found = vec![];
    let mut rest = literal;
    while let Some(first) = rest.chars().next() {
        let hole = rest.find('}').filter(|_| first == '{');
        let (character, length) = if rest.starts_with("{{") || rest.starts_with("}}") {
            (first, 2)
        } else if let Some(end) = hole {
            (HOLE, end + 1)
        } else {
            (first, first.len_utf8())
        };
        found.push(character);
        rest = &rest[length..];
    }
    found
}

/// Whether `message` is how `literal` begins.
fn begins(message: &[char], literal: &[char]) -> bool {
    match (message, literal) {
        ([], _) => true,
        ([HOLE, message @ ..], _) => {
            (0..=literal.len()).any(|from| begins(message, &literal[from..]))
        }
        (_, [HOLE, literal @ ..]) => {
            let characters = message.iter();
            let word = characters.take_while(|c| !c.is_whitespace() && **c != HOLE);
            (0..=word.count()).any(|from| {
                // A value is no word in lower case: the sources spell such words out.
                let (value, message) = message.split_at(from);
                let says = !value.is_empty() && value.iter().all(|c| c.is_lowercase());
                !says && begins(message, literal)
            })
        }
        ([a, message @ ..], [b, literal @ ..]) => a == b && begins(message, literal),
        (_, []) => false,
    }
}

/// The characters that do not differ.
fn fixed(text: &[char]) -> usize {
    let fixed = text.iter().filter(|c| **c != HOLE && !c.is_whitespace());
    fixed.count()
}

/// The literals of the sources.
struct Sources(Vec<Vec<char>>);

impl Sources {
    fn read() -> Self {
        let of_python = texts_of_python();
        let mut all: Vec<_> = of_python.iter().map(|text| of_source(text)).collect();
        for file in MEMBERS.iter().flat_map(|member| files(member)) {
            let text = text_of(&file);
            let literals = literals(&text);
            all.extend(literals.iter().map(|literal| of_source(&literal.value)));
        }
        Self(all)
    }

    /// Whether the message is the text of a literal.
    fn have(&self, message: &str) -> bool {
        // `BowtieError` puts it before the text of some.
        let message = message.strip_prefix("bowtie: ").unwrap_or(message);
        let message = of_page(message);
        // What differs at an end may be another literal's.
        let is_open = |c: &char| *c == HOLE || c.is_whitespace();
        let begin = message.iter().take_while(|c| is_open(c)).count();
        let message = &message[begin..];
        let least = fixed(message);
        let mut literals = self.0.iter();
        literals.any(|literal| {
            // At least half of what is there is not filled in.
            let is_like = 2 * fixed(literal) >= least;
            is_like && (0..literal.len()).any(|from| begins(message, &literal[from..]))
        })
    }
}

#[test]
fn every_message_of_a_page_is_in_the_sources() {
    let sources = Sources::read();
    let mut missing = vec![];
    for (name, page) in PAGES {
        let messages = messages(page);
        assert!(!messages.is_empty(), "{name}");
        let own = messages
            .into_iter()
            .filter(|message| !message.starts_with(OF_DATAFUSION));
        missing.extend(own.filter(|message| !sources.have(message)));
    }
    assert!(missing.is_empty(), "no source says {missing:#?}");
}

#[test]
fn what_no_source_says_is_found() {
    let sources = Sources::read();
    for message in [
        "how many rows one of its inputs has is not known",
        "it is an equi-join",
        "it has only … triples",
        "A is not fused: it has two arguments",
        "bowtie: this is no message",
    ] {
        assert!(!sources.have(message), "{message}");
    }
}

#[test]
fn holes_stand_for_what_differs() {
    let fits = |message: &str, literal: &str| {
        let (message, literal) = (of_page(message), of_source(literal));
        (0..literal.len()).any(|from| begins(&message, &literal[from..]))
    };
    assert!(fits(
        "it has only … pairs",
        "it has only {left} × {right} pairs of rows"
    ));
    assert!(fits("A of type T fails", "{} of type {} fails"));
    assert!(fits("up to 64 rows", "gains up to {FEW} rows"));
    assert!(fits("one column, and", "one column{inside}, and"));
    // A placeholder of a source is one value.
    assert!(!fits("up to few rows", "gains up to {FEW} rows"));
    assert!(!fits("up to a few rows", "gains up to {FEW} rows"));
    assert!(!fits("one column and", "one column{inside}, and"));
}
