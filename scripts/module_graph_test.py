#!/usr/bin/env python3
"""Tests of scripts/module_graph.py: it reports what is planted in small crates, and nothing else.

    scripts/module_graph_test.py
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "module_graph.py"


def checked(files, layers="top,middle,ground"):
    """The exit status and the output of the check of a crate with these files of src/; lib.rs declares its layers."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        declared = "".join(f"mod {layer};\n" for layer in layers.split(","))
        for name, text in {"lib.rs": declared, **{f"{layer}.rs": "" for layer in layers.split(",")}, **files}.items():
            file = sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run(
            [sys.executable, SCRIPT, folder, "--layers", layers, "--arrows"], capture_output=True, text=True, check=False
        )
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout


class ModuleGraph(unittest.TestCase):
    def passes(self, files):
        status, output = checked(files)
        self.assertEqual(status, 0, output)
        self.assertIn("0 circles of files, 0 circles of rooms, 0 arrows upwards", output)
        return output

    def fails(self, files, *reported):
        status, output = checked(files)
        self.assertEqual(status, 1, output)
        for line in reported:
            self.assertIn(line, output)
        return output

    def test_arrows_down_and_within_a_layer_pass(self):
        output = self.passes({
            "top.rs": "pub mod one; pub mod two;",
            "top/one.rs": "use crate::top::two::Two; use crate::middle::{self, Middle};",
            "top/two.rs": "pub struct Two(crate::ground::Ground);",
            "middle.rs": "pub struct Middle; pub fn made() -> Middle { Middle }",
            "ground.rs": "pub struct Ground;",
        })
        self.assertIn("top/one.rs -> middle.rs  (Middle)", output)
        self.assertIn("top/two.rs -> ground.rs  (Ground)", output)

    def test_a_circle_of_files(self):
        self.fails(
            {
                "top.rs": "pub mod one; pub mod two;",
                "top/one.rs": "use super::two::Two; pub struct One;",
                "top/two.rs": "pub struct Two; fn of(_: crate::top::one::One) {}",
            },
            "circle of 2 files:",
            "    top/one.rs -> top/two.rs  (Two)",
            "    top/two.rs -> top/one.rs  (One)",
            "1 circles of files",
        )

    def test_an_arrow_upwards(self):
        self.fails(
            {"top.rs": "pub fn act() {}", "ground.rs": "fn acts() { assert!(crate::top::act() == ()); }"},
            "upwards, from ground to top: ground.rs -> top.rs  (act)",
            "0 circles of files, 0 circles of rooms, 1 arrows upwards",
        )

    def test_a_re_export_is_followed_to_the_definition(self):
        self.fails(
            {
                "top.rs": "pub mod inner; pub use inner::Thing as Other;",
                "top/inner.rs": "pub struct Thing;",
                "middle.rs": "pub use crate::top::*;",
                "ground.rs": "use crate::middle::Other;",
            },
            "upwards, from ground to top: ground.rs -> top/inner.rs  (Thing)",
            "1 arrows upwards",
        )

    def test_a_circle_of_rooms_without_a_circle_of_files(self):
        self.fails(
            {
                "top.rs": "pub mod one; pub mod two;",
                "top/one/mod.rs": "pub mod a; pub mod b;",
                "top/one/a.rs": "use crate::top::two::c::C;",
                "top/one/b.rs": "pub struct B;",
                "top/two/mod.rs": "pub mod c; pub mod d;",
                "top/two/c.rs": "pub struct C;",
                "top/two/d.rs": "use crate::top::one::b::B;",
            },
            "circle of 2 rooms: top/one top/two",
            "  top/one -> top/two\n    top/one/a.rs -> top/two/c.rs  (C)",
            "  top/two -> top/one\n    top/two/d.rs -> top/one/b.rs  (B)",
            "0 circles of files, 1 circles of rooms, 0 arrows upwards",
        )

    def test_a_file_and_the_folder_of_its_name_are_one_room(self):
        self.fails(
            {
                "top.rs": "pub mod one; pub mod two;",
                "top/one.rs": "pub mod part; use crate::top::two::Two;",
                "top/one/part.rs": "pub struct Part;",
                "top/two.rs": "pub struct Two(crate::top::one::part::Part);",
            },
            "circle of 2 rooms: top/one top/two",
            "0 circles of files, 1 circles of rooms, 0 arrows upwards",
        )

    def test_rooms_of_other_layers_are_others(self):
        self.passes({
            "top.rs": "pub mod one; use crate::middle::one::b::B;",
            "top/one.rs": "use crate::middle::two::Two;",
            "middle.rs": "pub mod one; pub mod two;",
            "middle/one/mod.rs": "pub mod b;",
            "middle/one/b.rs": "use crate::middle::two::Two; pub struct B;",
            "middle/two.rs": "pub struct Two;",
        })

    def test_tests_are_left_out(self):
        self.passes({
            "top.rs": "pub struct Top;",
            "ground.rs": """
                #[cfg(test)]
                mod tests { use crate::top::Top; }
                #[cfg(test)]
                mod more;
                #[cfg(test)]
                use crate::top::Top;
                #[test]
                fn acts() { crate::top::Top; }
            """,
            "ground/more.rs": "use crate::top::Top;",
        })

    def test_comments_and_strings_name_nothing(self):
        self.passes({
            "top.rs": "pub struct Top;",
            "ground.rs": """
                //! [`Top`](crate::top::Top)
                /* use crate::top::Top; /* nested */ */
                fn text<'a>() -> &'a str { let _ = 'x'; "use crate::top::Top; \\" crate::top::Top" }
                fn raw() -> &'static str { r#"crate::top::Top " "# }
            """,
        })


if __name__ == "__main__":
    unittest.main()
