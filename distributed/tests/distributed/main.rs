//! Queries on workers and executors that are processes of their own, on this machine: the same rows as on a single node, and an end to whatever
//! goes wrong.

#![forbid(unsafe_code)]

mod ballista;
mod cluster;
mod commands;
mod data;
mod guide;
mod queries;
mod rows;
mod workers;
