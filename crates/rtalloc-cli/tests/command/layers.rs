//! The layers of the modules of laboratory and command in ARCHITECTURE.md: a module uses modules of lower layers alone. Unit tests
//! may use any.

use std::collections::BTreeMap;
use std::path::Path;

/// The files of unit tests.
const TEST_FILES: &[&str] = &["tests.rs", "crosscheck.rs", "fixture.rs"];

#[test]
fn modules_use_lower_layers_alone() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(crates.join("../ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, section) = text.split_once("## Layers of the laboratory").expect("a section");
    let drawn = section.split("```").nth(1).expect("a drawing");
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    for (layer, modules) in drawn.trim().split("<-").flat_map(|part| part.trim().split('\n')).enumerate() {
        for module in modules.split(',') {
            layers.entry(module.trim()).or_insert(layer);
        }
    }

    let roots = ["rtalloc-lab", "rtalloc-cli"].map(|name| crates.join(name).join("src"));
    let (mut files, mut wrong, mut uses) = (roots.to_vec(), Vec::new(), 0);
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(path.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let inside = roots.iter().find_map(|root| path.strip_prefix(root).ok()).expect("a source file");
        let first = inside.iter().next().expect("a module").to_string_lossy();
        let module = first.trim_end_matches(".rs");
        let is_test = TEST_FILES.iter().any(|name| inside.ends_with(name));
        if is_test || ["lib", "main"].contains(&module) {
            continue;
        }
        let own = *layers.get(module).unwrap_or_else(|| panic!("ARCHITECTURE.md has no layer for {module}"));
        let source = std::fs::read_to_string(&path).expect("a source file");
        let code: String = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let without_tests = code.split("mod tests {").next().unwrap_or_default();
        for used in without_tests.split("crate::").flat_map(|part| part.split("rtalloc_lab::")).skip(1) {
            let end = used.find(|other: char| !other.is_alphanumeric() && other != '_').unwrap_or(used.len());
            let used = &used[..end];
            uses += 1;
            // A path that is not one of a module, such as `crate::{`, has no layer.
            if used != module && layers.get(used).is_none_or(|layer| *layer >= own) {
                wrong.push(format!("{}: {used:?}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty() && uses > 100, "not of a lower layer, of {uses}:\n{}", wrong.join("\n"));
}
