//! How fast the card is, measured once: launches, copies to and from the host, and its memory.

pub(crate) mod card_rates;
pub(crate) mod memory_rates;
