#!/usr/bin/env python3
"""Holds the public items of the library against public-api.txt: whoever changes them sees it in the diff, and says so in CHANGELOG.md.

    scripts/public_api.py            fails, and shows the difference, if they are others
    scripts/public_api.py --write    writes the file

rustdoc lists the items as JSON, which a stable toolchain does with RUSTC_BOOTSTRAP. Cargo builds for it what `cargo doc --workspace` builds, so the step
"docs" of .ci/run shares its work; BOWTIE_FEATURES are the features of both. Each item is a line: its kind, its path, its types by their last names
without the names of arguments, and what it implements, with associated types. Items that are hidden from the documentation are no part of it (features `measure` and `faults`).
cargo-public-api does more, but builds its JSON by a nightly toolchain, and would be compiled in every fresh CI.
The form of the JSON depends on the toolchain, which rust-toolchain.toml fixes: scripts/public_api_test.py tests a newer one.
Needs Python 3.9 or newer.
"""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "public-api.txt"
CRATE = "datafusion_bowtie"
# Where the JSON goes, in the environment of Cargo, which calls this script in place of rustdoc.
PLACE = "BOWTIE_PUBLIC_API_JSON"
FORMATS = range(56, 58)
# Of the traits that the compiler implements, those that a program may rely on.
AUTO_TRAITS = ("Send", "Sync")


class UnknownForm(Exception):
    """The JSON has something that this script does not know."""


def as_rustdoc(arguments):
    """In place of rustdoc: documents the crate as JSON, and no other one."""
    if "--crate-name" in arguments:
        if arguments[arguments.index("--crate-name") + 1] != CRATE:
            return
        arguments = [argument for argument in arguments if argument != "--document-private-items"]
        for option in ("-o", "--out-dir"):
            if option in arguments:
                arguments[arguments.index(option) + 1] = os.environ[PLACE]
        arguments += ["-Z", "unstable-options", "--output-format", "json"]
        os.environ["RUSTC_BOOTSTRAP"] = "1"
    os.execvp("rustdoc", ["rustdoc", *arguments])


def documented():
    """The JSON of the library."""
    # Flags of their own: else Cargo may know the documentation as made already.
    flags = f"--cap-lints allow --cfg public_api_{time.time_ns()}"
    features = os.environ.get("BOWTIE_FEATURES", "")
    command = ["cargo", "doc", "--workspace", "--no-deps", "--features", features, "--locked"]
    # An empty place: neither an older file nor that of another clone is read.
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "RUSTDOC": str(Path(__file__).resolve()), "RUSTDOCFLAGS": flags, PLACE: place}
        if subprocess.run(command, env=environment, cwd=ROOT).returncode != 0:
            sys.exit("the library has no documentation: see above")
        return json.loads((Path(place) / f"{CRATE}.json").read_text(encoding="utf-8"))


class Types:
    """Types, bounds and signatures as text."""

    def path(self, path):
        name = path.get("path", path.get("name", "")).rsplit("::", 1)[-1]
        return name + self.arguments(path.get("args"))

    def arguments(self, arguments):
        if not arguments:
            return ""
        if arguments == "return_type_notation":
            return "(..)"
        (form, given), *_ = arguments.items()
        if form == "parenthesized":
            return f"({', '.join(map(self.type, given['inputs']))}){self.output(given['output'])}"
        if form != "angle_bracketed":
            raise UnknownForm(f"arguments: {arguments}")
        parts = [self.argument(argument) for argument in given["args"]] + [self.constraint(constraint) for constraint in given["constraints"]]
        return f"<{', '.join(parts)}>" if parts else ""

    def argument(self, argument):
        if argument == "infer":
            return "_"
        (form, given), *_ = argument.items()
        if form == "lifetime":
            return given
        if form == "type":
            return self.type(given)
        if form == "const":
            return given["expr"]
        raise UnknownForm(f"argument: {argument}")

    def constraint(self, constraint):
        (form, given), *_ = constraint["binding"].items()
        name = constraint["name"] + self.arguments(constraint["args"])
        if form == "equality":
            (kind, value), *_ = given.items()
            return f"{name} = {self.type(value) if kind == 'type' else value['expr']}"
        return f"{name}: {self.bounds(given)}"

    def type(self, given):
        if given == "infer":
            return "_"
        (form, of), *_ = given.items()
        if form == "resolved_path":
            return self.path(of)
        if form in ("generic", "primitive"):
            return of
        if form == "tuple":
            return f"({', '.join(map(self.type, of))}{',' if len(of) == 1 else ''})"
        if form == "slice":
            return f"[{self.type(of)}]"
        if form == "array":
            return f"[{self.type(of['type'])}; {of['len']}]"
        if form == "borrowed_ref":
            lifetime = f"{of['lifetime']} " if of["lifetime"] else ""
            return f"&{lifetime}{'mut ' if of['is_mutable'] else ''}{self.type(of['type'])}"
        if form == "raw_pointer":
            return f"*{'mut' if of['is_mutable'] else 'const'} {self.type(of['type'])}"
        if form == "impl_trait":
            return f"impl {self.bounds(of)}"
        if form == "dyn_trait":
            traits = [self.higher_ranked(bound["generic_params"]) + self.path(bound["trait"]) for bound in of["traits"]]
            return f"dyn {' + '.join(traits + [of['lifetime']] * bool(of['lifetime']))}"
        if form == "qualified_path":
            trait = self.path(of["trait"]) if of["trait"] else ""
            itself = self.type(of["self_type"])
            return f"{f'<{itself} as {trait}>' if trait else itself}::{of['name']}{self.arguments(of['args'])}"
        if form == "function_pointer":
            return f"{self.higher_ranked(of['generic_params'])}{self.header(of['header'])}fn{self.signature(of['sig'])}"
        raise UnknownForm(f"type: {given}")

    def higher_ranked(self, parameters):
        return f"for<{', '.join(parameter['name'] for parameter in parameters)}> " if parameters else ""

    def bounds(self, bounds):
        return " + ".join(map(self.bound, bounds))

    def bound(self, bound):
        (form, of), *_ = bound.items()
        if form == "outlives":
            return of
        if form == "use":
            return f"use<{', '.join(part if isinstance(part, str) else next(iter(part.values())) for part in of)}>"
        if form == "trait_bound":
            modifier = {"none": "", "maybe": "?", "maybe_const": "~const "}[of["modifier"]]
            return self.higher_ranked(of["generic_params"]) + modifier + self.path(of["trait"])
        raise UnknownForm(f"bound: {bound}")

    def generics(self, generics):
        """The parameters in angle brackets, and the conditions behind `where`."""
        parameters = []
        for parameter in generics["params"]:
            (form, of), *_ = parameter["kind"].items()
            name = parameter["name"]
            if form == "lifetime":
                parameters.append(f"{name}: {' + '.join(of['outlives'])}" if of["outlives"] else name)
            elif form == "const":
                parameters.append(f"const {name}: {self.type(of['type'])}")
            elif form != "type":
                raise UnknownForm(f"parameter: {parameter}")
            elif not of["is_synthetic"]:
                default = f" = {self.type(of['default'])}" if of["default"] else ""
                parameters.append(f"{name}{': ' if of['bounds'] else ''}{self.bounds(of['bounds'])}{default}")
        conditions = [self.condition(predicate) for predicate in generics["where_predicates"]]
        return f"<{', '.join(parameters)}>" if parameters else "", f" where {', '.join(conditions)}" if conditions else ""

    def condition(self, predicate):
        (form, of), *_ = predicate.items()
        if form == "bound_predicate":
            return f"{self.higher_ranked(of['generic_params'])}{self.type(of['type'])}: {self.bounds(of['bounds'])}"
        if form == "lifetime_predicate":
            return f"{of['lifetime']}: {' + '.join(of['outlives'])}"
        raise UnknownForm(f"condition: {predicate}")

    def output(self, output):
        return f" -> {self.type(output)}" if output else ""

    def signature(self, signature):
        def input_of(argument):
            name, given = argument
            if name == "self":
                return {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(self.type(given), f"self: {self.type(given)}")
            return self.type(given)

        return f"({', '.join(map(input_of, signature['inputs']))}){self.output(signature['output'])}"

    def header(self, header):
        words = [word for word in ("const", "async", "unsafe") if header[f"is_{word}"]]
        if header["abi"] != "Rust":
            abi = header["abi"] if isinstance(header["abi"], str) else next(iter(header["abi"]))
            words.append(f'extern "{abi}"')
        return "".join(f"{word} " for word in words)


class Listing:
    """The lines of a crate, by walking from its root as a program names things."""

    def __init__(self, crate):
        self.index = crate["index"]
        self.types = Types()
        self.lines = set()
        self.walked = set()
        root = self.item(crate["root"])
        self.module(root["inner"]["module"], root["name"])

    def item(self, identifier):
        """None for items of other crates and for hidden ones."""
        return self.index.get(str(identifier))

    def add(self, kind, text, attributes=()):
        # An attribute is text, or an object of one key.
        names = [attribute if isinstance(attribute, str) else next(iter(attribute)) for attribute in attributes]
        self.lines.add(f"{kind} {text}{' #[non_exhaustive]' if 'non_exhaustive' in names else ''}")

    def module(self, module, path):
        for identifier in module["items"]:
            self.walk(identifier, path)

    def walk(self, identifier, path, name=None):
        item = self.item(identifier)
        if item is None or item["visibility"] not in ("public", "default") or (identifier, path, name) in self.walked:
            return
        self.walked.add((identifier, path, name))
        (kind, of), *_ = item["inner"].items()
        if kind == "use":
            self.reexport(of, path)
            return
        path = f"{path}::{name or item['name']}"
        if not hasattr(self, f"of_{kind}"):
            raise UnknownForm(f"item of kind {kind}: {path}")
        getattr(self, f"of_{kind}")(item, of, path)

    def reexport(self, use, path):
        target = self.item(use["id"]) if use["id"] is not None else None
        if target is None:
            self.add("use", f"{path}::{'*' if use['is_glob'] else use['name']} = {use['source']}")
        elif not use["is_glob"]:
            self.walk(use["id"], path, use["name"])
        else:
            of = next(iter(target["inner"].values()))
            for identifier in of.get("items", of.get("variants", [])):
                self.walk(identifier, path)

    def of_module(self, item, of, path):
        self.add("mod", path)
        self.module(of, path)

    def of_struct(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        form = of["kind"]
        if form == "unit":
            fields, private = [], False
        elif "tuple" in form:
            fields, private = form["tuple"], None in form["tuple"]
        else:
            fields, private = form["plain"]["fields"], form["plain"]["has_stripped_fields"]
        self.add("struct", f"{path}{generics}{where}{' { private }' if private else ''}", item["attrs"])
        self.fields(fields, path)
        self.implementations(of["impls"], path)

    def of_union(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        self.add("union", f"{path}{generics}{where}", item["attrs"])
        self.fields(of["fields"], path)
        self.implementations(of["impls"], path)

    def fields(self, fields, path):
        for identifier in fields:
            field = self.item(identifier) if identifier is not None else None
            if field and field["visibility"] in ("public", "default"):
                self.add("field", f"{path}::{field['name']}: {self.types.type(field['inner']['struct_field'])}")

    def of_enum(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        self.add("enum", f"{path}{generics}{where}", item["attrs"])
        for identifier in of["variants"]:
            self.walk(identifier, path)
        self.implementations(of["impls"], path)

    def of_variant(self, item, of, path):
        form = of["kind"]
        if form == "plain":
            text, fields = "", []
        elif "tuple" in form:
            text, fields = "(…)", form["tuple"]
        else:
            text, fields = " { … }", form["struct"]["fields"]
        discriminant = f" = {of['discriminant']['value']}" if of["discriminant"] else ""
        self.add("variant", f"{path}{text}{discriminant}", item["attrs"])
        self.fields(fields, path)

    def of_function(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        self.add("fn", f"{path}{generics}{self.types.signature(of['sig'])}{where}{self.header(of)}")

    def header(self, of):
        header = self.types.header(of["header"]).strip()
        return f" [{header}]" if header else ""

    def of_trait(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        bounds = f": {self.types.bounds(of['bounds'])}" if of["bounds"] else ""
        compatible = "" if of.get("is_dyn_compatible", True) else " [not dyn]"
        self.add("unsafe trait" if of["is_unsafe"] else "trait", f"{path}{generics}{bounds}{where}{compatible}")
        for identifier in of["items"]:
            inner = self.item(identifier)["inner"] if self.item(identifier) else {}
            # A type that implements the trait need not have it.
            provided = inner.get("function", {}).get("has_body") or inner.get("assoc_const", {}).get("value") is not None
            self.walk_with(identifier, path, "provided" if provided else "")
        self.implementations(of["implementations"], None)

    def of_assoc_type(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        bounds = f": {self.types.bounds(of['bounds'])}" if of["bounds"] else ""
        default = f" = {self.types.type(of['type'])}" if of["type"] else ""
        self.add("type", f"{path}{generics}{bounds}{where}{default}")

    def of_assoc_const(self, item, of, path):
        self.add("const", f"{path}: {self.types.type(of['type'])}")

    def of_constant(self, item, of, path):
        self.add("const", f"{path}: {self.types.type(of['type'])}")

    def of_static(self, item, of, path):
        self.add("static mut" if of["is_mutable"] else "static", f"{path}: {self.types.type(of['type'])}")

    def of_type_alias(self, item, of, path):
        generics, where = self.types.generics(of["generics"])
        self.add("type", f"{path}{generics}{where} = {self.types.type(of['type'])}")

    def of_macro(self, item, of, path):
        self.add("macro", f"{path}!")

    def of_proc_macro(self, item, of, path):
        self.add("macro", f"{path}! ({of['kind']})")

    def of_extern_crate(self, item, of, path):
        self.add("use", f"{path} = {of['name']}")

    def implementations(self, identifiers, path):
        """Of a type at `path`, or of a trait for types of other crates."""
        for identifier in identifiers:
            item = self.item(identifier)
            if item is None:
                continue
            of = item["inner"]["impl"]
            trait = of["trait"]
            if trait is None:
                generics, where = self.types.generics(of["generics"])
                itself = self.types.type(of["for"])
                # Where all values of a type have the methods, that goes without saying.
                limits = f"impl{generics} {itself}{where}" if "<" in itself else ""
                for method in of["items"]:
                    self.walk_with(method, path, limits)
                continue
            if of["blanket_impl"] or (of["is_synthetic"] and trait["path"].rsplit("::", 1)[-1] not in AUTO_TRAITS):
                continue
            generics, where = self.types.generics(of["generics"])
            sign = "!" if of["is_negative"] else ""
            unsafe = "unsafe " if of["is_unsafe"] else ""
            self.add(f"{unsafe}impl{generics}", f"{sign}{self.types.path(trait)} for {self.types.type(of['for'])}{where}{self.chosen(of)}")

    def chosen(self, implementation):
        """The associated types of a trait as an implementation chooses them."""
        items = [item for item in map(self.item, implementation["items"]) if item and "assoc_type" in item["inner"]]
        types = [f"{item['name']} = {self.types.type(item['inner']['assoc_type']['type'])}" for item in items]
        return f" {{ {', '.join(types)} }}" if types else ""

    def walk_with(self, identifier, path, remark):
        """With a remark behind the line."""
        lines, self.lines = self.lines, set()
        self.walk(identifier, path)
        self.lines = lines | {f"{line} [{remark}]" if remark else line for line in self.lines}


def listing(crate):
    """The lines of the JSON of a crate, in the order of their paths."""
    if crate["format_version"] not in FORMATS:
        newest = FORMATS[-1]
        print(f"the form of rustdoc's JSON is {crate['format_version']}, and this script was written for {newest}", file=sys.stderr)
    if crate["includes_private"]:
        raise UnknownForm("private items are in it")

    def place(line):
        kind, path = re.match(r"(.*?)([\w:]*::[\w:]+|$)", line).groups()
        return (not path, path, kind, line)

    return sorted(Listing(crate).lines, key=place)


def main():
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    try:
        found = listing(documented())
    except UnknownForm as unknown:
        sys.exit(f"rustdoc's JSON has a form that scripts/public_api.py does not know: {unknown}")
    text = "".join(f"{line}\n" for line in found)
    if sys.argv[1:] == ["--write"]:
        LIST.write_text(text, encoding="utf-8")
        print(f"{LIST.name}: {len(found)} public items")
        return
    kept = LIST.read_text(encoding="utf-8") if LIST.exists() else ""
    if text != kept:
        difference = difflib.unified_diff(kept.splitlines(), found, LIST.name, "the library", n=0, lineterm="")
        print("\n".join(difference))
        sys.exit("the public items changed: run scripts/public_api.py --write, commit the file, and say in CHANGELOG.md what users have to change")
    print(f"{len(found)} public items, as in {LIST.name}")


if __name__ == "__main__":
    if PLACE in os.environ:
        as_rustdoc(sys.argv[1:])
    else:
        main()
