//! Merges the words of a block into those of the card.

use crate::device::cuda::codegen::groups::words::{Slots, WORD, Words, add_wide};
use crate::device::cuda::codegen::layout::Place;
use crate::device::cuda::codegen::ptx::{Long, Predicate, Text, Word as Register32};
use crate::ir::group_program::Word;

const LANES: u32 = 32;

impl Words {
    /// Merges all words into those behind the flag at `output`, at the end of a block.
    pub(crate) fn flush(&self, text: &mut Text, place: &Place, output: Long) {
        text.line("bar.sync 0;");
        match self.slots {
            Slots::OfThread => self.flush_of_threads(text, place, output),
            Slots::OfBlock => self.flush_of_block(text, output),
        }
    }

    /// A warp for each group: lanes add up the words of all threads.
    fn flush_of_threads(&self, text: &mut Text, place: &Place, output: Long) {
        let is_first = text.predicate("setp.eq.u32", &[&place.lane, &0]);
        let memory = text.word("mov.u32", &[&"rows"]);
        let of_lane = text.word("mad.lo.u32", &[&place.lane, &WORD, &memory]);
        let group = text.word("mov.u32", &[&place.warp]);
        let warps = self.slots.threads() / LANES;
        text.line("GROUP:");
        let is_done = text.predicate("setp.ge.u32", &[&group, &self.groups]);
        text.line(format_args!("@{is_done} bra FLUSHED;"));
        let of_group = self.each * self.stride();
        let at = text.word("mad.lo.u32", &[&group, &of_group, &of_lane]);
        let to = self.output(text, group, output);
        let mut w = 0;
        for word in &self.layout {
            let read = |text: &mut Text, w: u32, thread: u32| {
                let place = w * self.stride() + thread * WORD;
                text.long("ld.shared.u64", &[&format_args!("[{at}+{place}]")])
            };
            let mut sum: Option<Vec<Long>> = None;
            for thread in (0..self.slots.threads()).step_by(LANES as usize) {
                let words = (0..word.words() as u32).map(|half| read(text, w + half, thread));
                let words: Vec<Long> = words.collect();
                sum = Some(match sum {
                    None => words,
                    Some(sum) => merged(text, *word, &sum, &words),
                });
            }
            let mut sum = sum.unwrap_or_default();
            for distance in [16u32, 8, 4, 2, 1] {
                let others: Vec<Long> = sum.iter().map(|w| shuffled(text, *w, distance)).collect();
                sum = merged(text, *word, &sum, &others);
            }
            if w == 0 {
                let is_empty = text.predicate("setp.eq.u64", &[&sum[0], &0]);
                text.line(format_args!("@{is_empty} bra NEXT;"));
            }
            merge_into(text, *word, to, w, &sum, Some(is_first));
            w += word.words() as u32;
        }
        text.line("NEXT:");
        text.set("add.u32", group, &[&group, &warps]);
        text.line("bra GROUP;");
        text.line("FLUSHED:");
    }

    /// A thread for each group.
    fn flush_of_block(&self, text: &mut Text, output: Long) {
        let memory = text.word("mov.u32", &[&"rows"]);
        let group = text.word("mov.u32", &[&self.thread]);
        text.line("GROUP:");
        let is_done = text.predicate("setp.ge.u32", &[&group, &self.groups]);
        text.line(format_args!("@{is_done} bra FLUSHED;"));
        let at = text.word("mad.lo.u32", &[&group, &(self.each * WORD), &memory]);
        let to = self.output(text, group, output);
        let mut w = 0;
        for word in &self.layout {
            let words = (0..word.words() as u32).map(|half| {
                let place = (w + half) * WORD;
                text.long("ld.shared.u64", &[&format_args!("[{at}+{place}]")])
            });
            let words: Vec<Long> = words.collect();
            if w == 0 {
                let is_empty = text.predicate("setp.eq.u64", &[&words[0], &0]);
                text.line(format_args!("@{is_empty} bra NEXT;"));
            }
            merge_into(text, *word, to, w, &words, None);
            w += word.words() as u32;
        }
        text.line("NEXT:");
        text.set("add.u32", group, &[&group, &self.slots.threads()]);
        text.line("bra GROUP;");
        text.line("FLUSHED:");
    }

    /// The address of a group's words in the output.
    fn output(&self, text: &mut Text, group: Register32, output: Long) -> Long {
        let at = text.long("mad.wide.u32", &[&group, &(self.each * WORD), &output]);
        text.long("add.u64", &[&at, &WORD])
    }
}

/// Both words together.
fn merged(text: &mut Text, word: Word, a: &[Long], b: &[Long]) -> Vec<Long> {
    match word {
        Word::Sum => vec![text.long("add.u64", &[&a[0], &b[0]])],
        Word::Most => vec![text.long("max.u64", &[&a[0], &b[0]])],
        Word::WideSum => vec![
            text.long("add.cc.u64", &[&a[0], &b[0]]),
            text.long("addc.u64", &[&a[1], &b[1]]),
        ],
    }
}

/// The word of the lane whose number differs in one bit.
fn shuffled(text: &mut Text, word: Long, distance: u32) -> Long {
    let (lower, upper) = (text.new_word(), text.new_word());
    text.line(format_args!("mov.b64 {{{lower}, {upper}}}, {word};"));
    let halves = [lower, upper].map(|half| {
        let operands: [&dyn std::fmt::Display; 4] = [&half, &distance, &31, &"0xffffffff"];
        text.word("shfl.sync.bfly.b32", &operands)
    });
    let out = text.new_long();
    text.line(format_args!(
        "mov.b64 {out}, {{{}, {}}};",
        halves[0], halves[1]
    ));
    out
}

/// Merges a word into word `w` of the output at `to`; `by`: the thread that does so.
fn merge_into(
    text: &mut Text,
    word: Word,
    to: Long,
    w: u32,
    words: &[Long],
    by: Option<Predicate>,
) {
    let guard = by.map_or(String::new(), |by| format!("@{by} "));
    let address = format!("[{to}+{}]", w * WORD);
    match word {
        Word::Sum => text.line(format_args!(
            "{guard}red.global.add.u64 {address}, {};",
            words[0]
        )),
        Word::Most => text.line(format_args!(
            "{guard}red.global.max.u64 {address}, {};",
            words[0]
        )),
        Word::WideSum => {
            let upper = format!("[{to}+{}]", (w + 1) * WORD);
            add_wide(
                text,
                "global",
                &address,
                &upper,
                [words[0], words[1]],
                &guard,
            );
        }
    }
}
