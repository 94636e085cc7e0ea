//! Modules use only modules of lower layers, in the order of the table in `src/lib.rs`.

use std::collections::HashMap;
use std::path::Path;

/// The names after every `prefix`, up to the first character that is not part of a name.
fn names_after<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let is_other = |character: char| !character.is_ascii_alphanumeric() && character != '_';
    text.split(prefix).skip(1).map(|rest| rest.split(is_other).next().expect("a first part")).collect()
}

#[test]
fn modules_use_only_lower_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |name: &str| std::fs::read_to_string(source.join(name)).expect("the source is readable");
    let library = read("lib.rs");
    let mut layers = HashMap::new();
    for (layer, row) in library.lines().filter_map(|line| line.strip_prefix("//! | ")).enumerate() {
        let first_cell = row.split(" | ").next().expect("a first cell");
        layers.extend(names_after(first_cell, "`").into_iter().map(|name| (name, layer)));
    }
    for module in names_after(&library, "\nmod ") {
        let own = *layers.get(module).unwrap_or_else(|| panic!("{module} is not in the table"));
        let text = read(&format!("{module}.rs"));
        let code = text.lines().map(|line| line.split("//").next().expect("a first part"));
        let text = code.collect::<Vec<_>>().join("\n");
        assert!(!text.contains("super::"), "{module}: name modules by `crate::`");
        let mut used = names_after(&text, "crate::");
        for group in text.split("crate::{").skip(1) {
            used.extend(
                group
                    .split('}')
                    .next()
                    .expect("a group")
                    .split(", ")
                    .map(|path| path.trim().split(':').next().expect("a name")),
            );
        }
        for name in used.into_iter().filter(|name| !name.is_empty()) {
            let layer = layers.get(name).unwrap_or_else(|| panic!("{module} uses {name}, which is not in the table"));
            assert!(*layer < own, "{module} uses {name}, which is not in a lower layer");
        }
    }
}
