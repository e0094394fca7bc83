//! Table functions of resident columns: [`CacheFunction`](cache_function::CacheFunction) lists them,
//! [`PinFunction`](pin_function::PinFunction) keeps them or lets them go.

pub(crate) mod cache_function;
pub(crate) mod pin_function;
pub(crate) mod rows_table;
pub(crate) mod session_tables;
pub(crate) mod state_of;
