//! The windows of consecutive characters, or words, of one text. A text that is shorter than a window is one itself.

use datafusion::error::Result;
use unicode_segmentation::UnicodeSegmentation;

use crate::functions::text::text_lists::TextLists;

/// Adds the windows of `n` characters to `lists`.
pub(crate) fn push_characters(text: &str, n: usize, lists: &mut TextLists) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    if text.is_ascii() {
        return lists.push_windows(text, n.min(text.len()));
    }
    let begins = text.char_indices().map(|(at, _)| at);
    let mut ends = begins.clone().chain([text.len()]).skip(n).peekable();
    if ends.peek().is_none() {
        return lists.push(text);
    }
    for (begin, end) in begins.zip(ends) {
        lists.push(&text[begin..end])?;
    }
    Ok(())
}

/// Makes windows of words. Its memory serves text after text.
#[derive(Default)]
pub(crate) struct Words {
    /// The words, each with a space behind it.
    joined: String,
    /// Where each word begins, and the end.
    begins: Vec<usize>,
}

impl Words {
    /// Adds the windows of `n` words, joined by spaces, to `lists`.
    pub(crate) fn push(&mut self, text: &str, n: usize, lists: &mut TextLists) -> Result<()> {
        self.joined.clear();
        self.begins.clear();
        for word in text.unicode_words() {
            self.begins.push(self.joined.len());
            self.joined.push_str(word);
            self.joined.push(' ');
        }
        let words = self.begins.len();
        if words == 0 {
            return Ok(());
        }
        self.begins.push(self.joined.len());
        let n = n.min(words);
        for (begin, end) in self.begins.iter().zip(&self.begins[n..]) {
            lists.push(&self.joined[*begin..*end - 1])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};

    use super::*;

    fn made(push: impl FnOnce(&mut TextLists) -> Result<()>) -> Result<Vec<String>> {
        let mut lists = TextLists::new("f", 1);
        push(&mut lists)?;
        lists.end_list();
        let lists = lists.finish(None)?;
        let list = lists.as_list::<i32>().value(0);
        let list = list.as_string::<i32>();
        Ok((0..list.len()).map(|i| list.value(i).to_string()).collect())
    }

    fn characters(text: &str, n: usize) -> Vec<String> {
        made(|lists| push_characters(text, n, lists)).unwrap()
    }

    #[test]
    fn characters_of_one_byte_and_of_more() {
        assert_eq!(characters("abcd", 3), ["abc", "bcd"]);
        assert_eq!(characters("aßc→", 3), ["aßc", "ßc→"]);
        for n in 1..12 {
            let text = "abcdefghi";
            let of_ascii = characters(text, n);
            let wide = characters(&text.replace('e', "é"), n);
            let again: Vec<_> = wide.iter().map(|w| w.replace('é', "e")).collect();
            assert_eq!(again, of_ascii, "{n}");
        }
    }

    #[test]
    fn a_short_text_is_a_window() {
        assert_eq!(characters("ab", 2), ["ab"]);
        assert_eq!(characters("ab", usize::MAX), ["ab"]);
        assert_eq!(characters("→", 2), ["→"]);
        assert_eq!(characters("→", usize::MAX), ["→"]);
        assert!(characters("", 1).is_empty());
    }

    #[test]
    fn words_joined_by_spaces() {
        let mut words = Words::default();
        let mut of = |text, n| made(|lists| words.push(text, n, lists)).unwrap();
        assert_eq!(of("to be,  or not", 2), ["to be", "be or", "or not"]);
        assert_eq!(of("to be", 1), ["to", "be"]);
        assert_eq!(of("to be!", 3), ["to be"]);
        assert!(of(" –!", 1).is_empty());
    }

    /// Nothing is allocated for them.
    #[test]
    fn more_than_offsets_can_count_is_refused() {
        let text = "a".repeat(100_000);
        let refused = made(|lists| push_characters(&text, 50_000, lists)).unwrap_err();
        let refused = refused.strip_backtrace();
        assert!(refused.contains("batch_size"), "{refused}");
    }
}
