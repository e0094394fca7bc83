//! What the papers have and the rule never puts first, as another technique was faster wherever they were measured: an option names it.

pub(crate) mod signature;
