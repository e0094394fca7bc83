//! Encoding of lists as ascending sets of element ranks: the input of every technique.

pub(crate) mod bitmap_sort;
pub(crate) mod element_ids;
pub(crate) mod empty_sets;
pub(crate) mod encoded;
pub(crate) mod encoding;
pub(crate) mod equal_sets;
pub(crate) mod inverted_lists;
pub(crate) mod list_offsets;
pub(crate) mod set_element_words;
pub(crate) mod set_order;
pub(crate) mod word_packing;
