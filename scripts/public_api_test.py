#!/usr/bin/env python3
"""Tests scripts/public_api.py: a small crate, by the rustdoc at hand, has the lines that stand here.

    scripts/public_api_test.py
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import public_api

SOURCE = """
mod private {
    #[derive(Clone)]
    pub struct Options { pub size: u8, other: u8 }
    impl Options {
        pub async fn run<'a, F: Fn(&str) -> u8 + Send + 'a>(&mut self, f: F, g: impl Iterator<Item = u8>) -> Result<(), Box<dyn std::error::Error + Send>> { loop {} }
        pub const fn limit() -> usize { 1 }
        pub(crate) fn inner(&self) {}
        #[doc(hidden)]
        pub fn hidden(&self) {}
    }
    #[non_exhaustive]
    pub enum Choice { Off, Of(u8), Named { x: u8 } }
    pub mod deep {
        pub fn forms(a: [u8; 4], b: *const u8, c: (u8,), d: for<'a> fn(&'a u8) -> &'a u8) -> impl Sized {}
        pub fn other() {}
    }
    pub struct Cell<T, const N: usize>(pub [T; N]) where T: Copy;
    impl<T: Copy + Ord, const N: usize> Cell<T, N> { pub fn sorted(&self) -> &Self { self } }
    impl Cell<u8, 1> { pub fn only(&self) {} }
    pub struct NotSend(*const u8);
    pub trait Extension: Sized {
        type Item: Clone;
        const NUMBER: usize = 1;
        fn with(self) -> Option<Self::Item>;
        fn given(&self) {}
    }
    impl Extension for Vec<u8> { type Item = u8; fn with(self) -> Option<u8> { None } }
    pub struct NotExported;
}
pub use private::{Cell, Choice, Extension, NotSend as Local, Options, deep::forms};
pub mod all { pub use crate::private::deep::*; }
pub use std::vec::Vec as List;
#[doc(hidden)]
pub mod hidden { pub fn function() {} }
#[macro_export]
macro_rules! a_macro { () => {} }
pub type Alias<T> = Result<T, String>;
pub static TEXT: &str = "";
pub const BYTES: &'static [u8] = &[];
"""

EXPECTED = """\
type small::Alias<T> = Result<T, String>
const small::BYTES: &'static [u8]
struct small::Cell<T, const N: usize> where T: Copy
field small::Cell::0: [T; N]
fn small::Cell::only(&self) [impl Cell<u8, 1>]
fn small::Cell::sorted(&self) -> &Self [impl<T: Copy + Ord, const N: usize> Cell<T, N>]
enum small::Choice #[non_exhaustive]
variant small::Choice::Named { … }
field small::Choice::Named::x: u8
variant small::Choice::Of(…)
field small::Choice::Of::0: u8
variant small::Choice::Off
trait small::Extension: Sized [not dyn]
type small::Extension::Item: Clone
const small::Extension::NUMBER: usize [provided]
fn small::Extension::given(&self) [provided]
fn small::Extension::with(self) -> Option<Self::Item>
use small::List = std::vec::Vec
struct small::Local { private }
struct small::Options { private }
fn small::Options::limit() -> usize [const]
fn small::Options::run<'a, F: Fn(&str) -> u8 + Send + 'a>(&mut self, F, impl Iterator<Item = u8>) -> Result<(), Box<dyn Error + Send>> [async]
field small::Options::size: u8
static small::TEXT: &str
macro small::a_macro!
mod small::all
fn small::all::forms([u8; 4], *const u8, (u8,), for<'a> fn(&'a u8) -> &'a u8) -> impl Sized
fn small::all::other()
fn small::forms([u8; 4], *const u8, (u8,), for<'a> fn(&'a u8) -> &'a u8) -> impl Sized
impl !Send for NotSend
impl !Sync for NotSend
impl Clone for Options
impl Extension for Vec<u8> { Item = u8 }
impl Send for Choice
impl Send for Options
impl Sync for Choice
impl Sync for Options
impl<T, const N: usize> Send for Cell<T, N> where T: Send
impl<T, const N: usize> Sync for Cell<T, N> where T: Sync
"""


class Lines(unittest.TestCase):
    maxDiff = None

    def test_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "small.rs"
            source.write_text(SOURCE, encoding="utf-8")
            command = ["rustdoc", "--edition", "2024", "--cap-lints", "allow", "-o", folder, "-Z", "unstable-options", "--output-format", "json", source]
            subprocess.run(command, check=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, cwd=public_api.ROOT)
            crate = json.loads((Path(folder) / "small.json").read_text(encoding="utf-8"))
        self.assertEqual("\n".join(public_api.listing(crate)) + "\n", EXPECTED)


unittest.main()
