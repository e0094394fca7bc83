//! What the papers have and no plan of `auto` reaches, as sorting is faster for every comparison that it serves: an option names it.

pub(crate) mod brute_force;
