//! include/rtalloc.h agrees with the sources of this crate, and so do the lists of heaps in include/rtalloc.hpp and
//! tests/allocators.h. With `UPDATE_HEADER=1` they are written from them.
//!
//! The first comment of rtalloc.h is written by hand. Everything else is translated from the sources, item by item: constants, types
//! and functions with their documentation. The functions of a kind of heap (`src/verbs`) become one macro, and each
//! entry of the Rust library's table and each line of a table in `src/allocators.rs` becomes one use of it.

mod toolchain;

use rtalloc::RegionAllocator;
use rtalloc::mechanism::stats::WithStats;
use rtalloc::mechanism::word::Offset32;
use std::fs;
use toolchain::krate;

/// Longest line of the header.
const COLUMNS: usize = 120;

/// The sections of the header: title, source files, and tables of heaps. Types precede their uses, as C requires.
const SECTIONS: [(&str, &[&str], &[&str]); 5] = [
    ("Version, errors, reports and contracts", &["lib", "error", "report", "contract", "bound/mod"], &[]),
    ("Region heaps: one caller at a time", &["heap/mod", "verbs/region", "debug", "verbs/debug"], &["region_heaps"]),
    ("Handle heaps: objects that move, one caller at a time", &["heap/handle", "verbs/handle"], &["handle_heaps"]),
    ("Shared heaps: several threads, each with a slot", &["heap/shared", "verbs/shared"], &["shared_heaps"]),
    ("Shared handle heap: objects that move, several threads, each with a slot", &["objects"], &[]),
];

/// An item of the sources: its documentation, its text up to the body, and the lines of its body.
#[derive(Default)]
struct Item {
    docs: Vec<String>,
    text: String,
    body: Vec<String>,
    /// The group of functions that it belongs to, if it is in a macro.
    group: String,
}

/// The items of a source file that the header contains.
fn items(source: &str) -> Vec<Item> {
    let (mut items, mut docs, mut group) = (Vec::new(), Vec::new(), String::new());
    let mut lines = source.lines();
    while let Some(whole) = lines.next() {
        let line = whole.trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_string());
        } else if let Some(name) = whole.strip_prefix("macro_rules! ") {
            group = name.trim_end_matches("s {").to_string();
            docs.clear();
        } else if let Some(arm) = whole.strip_prefix("    (").filter(|arm| arm.starts_with(char::is_alphabetic)) {
            group = arm.split(' ').next().expect("a word").to_string();
        } else if is_of_c(line, &group) {
            let mut text = line.to_string();
            while !text.ends_with(['{', ';']) {
                text.push(' ');
                text.push_str(lines.next().expect("the rest of an item").trim());
            }
            let mut body = Vec::new();
            if text.ends_with('{') && !text.contains("fn ") {
                body.extend(lines.by_ref().map(|line| line.trim().to_string()).take_while(|line| line != "}"));
            }
            let docs = std::mem::take(&mut docs);
            items.push(Item {
                docs,
                text: text.trim_end_matches(['{', ';', ' ']).to_string(),
                body,
                group: group.clone(),
            });
        } else if !line.starts_with('#') {
            docs.clear();
        }
        if whole == "}" {
            group.clear();
        }
    }
    items
}

/// Whether a line begins an item of the header. In a macro, a plain `fn` begins a forwarding function.
fn is_of_c(line: &str, group: &str) -> bool {
    const STARTS: [&str; 5] = ["pub const RT_", "pub type rt_", "pub enum rt_", "pub struct rt_", "pub struct $opaque"];
    STARTS.iter().any(|start| line.starts_with(start))
        || line.starts_with("pub ") && line.contains(" extern \"C\" fn ")
        || line.starts_with("fn ") && !group.is_empty()
}

/// The C declaration of a name with a Rust type.
fn declared(of_rust: &str, name: &str) -> String {
    let of_rust = of_rust.trim();
    if let Some(target) = of_rust.strip_prefix("*mut ") {
        declared(target, &format!("*{name}"))
    } else if let Some(target) = of_rust.strip_prefix("*const ") {
        assert!(!target.starts_with('*'), "{of_rust}: not translated");
        format!("const {}", declared(target, &format!("*{name}")))
    } else if let Some((element, count)) =
        of_rust.strip_prefix('[').and_then(|array| array[..array.len() - 1].split_once("; "))
    {
        declared(element, &format!("{name}[{count}]"))
    } else if let Some(inner) = of_rust.strip_prefix("MaybeUninit<").and_then(|inner| inner.strip_suffix('>')) {
        declared(inner, name)
    } else if let Some(function) =
        of_rust.strip_prefix("Option<unsafe extern \"C\" fn").and_then(|rest| rest.strip_suffix('>'))
    {
        format!("void (*{name}){}", parameters(function))
    } else {
        let of_c = match of_rust {
            "usize" => "size_t",
            "u32" => "uint32_t",
            "u64" => "uint64_t",
            "c_char" => "char",
            "c_void" => "void",
            "bool" => "bool",
            "$opaque" => "rt_HEAP",
            "config_of!($($config)?)" => "rt_CONFIG",
            _ => of_rust.strip_prefix("rt_").map(|_| of_rust).unwrap_or_else(|| panic!("{of_rust}: not translated")),
        };
        format!("{of_c} {name}")
    }
}

/// The C parameters of `(a: A, b: B)`.
fn parameters(of_rust: &str) -> String {
    let inner = of_rust.trim_start_matches('(').trim_end_matches(')').trim().trim_end_matches(',');
    let each = inner.split(", ").filter(|one| !one.is_empty()).map(|one| {
        let (name, type_name) = one.split_once(": ").expect("a parameter");
        declared(type_name, name.trim_start_matches("r#"))
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() { "(void)".to_string() } else { format!("({})", each.join(", ")) }
}

/// The C prototype of a function. In a group, its name begins with `rt_HEAP_`.
fn prototype(item: &Item) -> String {
    let (_, signature) = item.text.split_once("fn ").expect("a function");
    let (head, result) = signature.split_once(" -> ").unwrap_or((signature, ""));
    let (name, list) = head.split_at(head.find('(').expect("parameters"));
    let name = if item.group.is_empty() { name.to_string() } else { format!("rt_HEAP_{name}") };
    let function = format!("{name}{}", parameters(list));
    if result.is_empty() { format!("void {function}") } else { declared(result, &function) }
}

/// The lines of a prototype, broken after commas.
fn broken(prototype: &str, indent: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for part in prototype.split_inclusive(", ") {
        // Leaves room for the indent and the end of a line in a macro.
        if line.len() + part.trim_end().len() > COLUMNS - 8 {
            lines.push(line.trim_end().to_string());
            line = indent.to_string();
        }
        line += part;
    }
    lines.push(line);
    lines
}

/// Documentation as a comment. The heading of a section becomes the first word of its paragraph.
fn comment(docs: &[String], indent: &str) -> String {
    let mut paragraphs = vec![String::new()];
    for doc in docs {
        let heading = match doc.as_str() {
            "# Errors" => "Errors:",
            "# Safety" => "Requires:",
            "# Time" => "Time:",
            text => {
                *paragraphs.last_mut().expect("a paragraph") += &format!(" {text}");
                continue;
            }
        };
        paragraphs.push(heading.to_string());
    }
    let begin = format!("{indent}//");
    let mut comment = String::new();
    for paragraph in paragraphs {
        let mut line = begin.clone();
        for word in paragraph.split_whitespace() {
            if line.len() + 1 + word.len() > COLUMNS {
                comment += &(line + "\n");
                line = begin.clone();
            }
            line += &format!(" {word}");
        }
        comment += &(line + "\n");
    }
    comment
}

/// A constant, type or function of the whole library.
fn single(item: &Item) -> String {
    let words = item.text.split_once(' ').expect("pub").1;
    let (kind, rest) = words.split_once(' ').expect("a kind");
    let mut text = comment(&item.docs, "");
    match kind {
        "const" => {
            let (name, value) = rest.split_once(" = ").expect("a value");
            text += &format!("#define {} {value}\n", name.split_once(':').expect("a type").0);
        }
        "type" => {
            let (name, of_rust) = rest.split_once(" = ").expect("a type");
            text += &format!("typedef {};\n", declared(of_rust, name));
        }
        "struct" if rest.ends_with("(())") => {
            let name = rest.trim_end_matches("(())");
            text += &format!("typedef struct {name} {name};\n");
        }
        "struct" | "enum" => {
            text += "typedef ";
            text += kind;
            text += " {\n";
            let mut docs = Vec::new();
            for line in &item.body {
                if let Some(doc) = line.strip_prefix("/// ") {
                    docs.push(doc.to_string());
                    continue;
                }
                text += &comment(&std::mem::take(&mut docs), "    ");
                let line = line.trim_end_matches(',');
                text += &match line.strip_prefix("pub ").and_then(|field| field.split_once(": ")) {
                    Some((name, of_rust)) => format!("    {};\n", declared(of_rust, name)),
                    None => format!("    {},\n", line.split(" => ").next().expect("a variant")),
                };
            }
            text += &format!("}} {rest};\n");
        }
        _ => text += &format!("{};\n", broken(&prototype(item), "    ").join("\n")),
    }
    text + "\n"
}

/// The name of the macro that declares a group.
fn macro_name(group: &str) -> String {
    format!("RT_DECLARE_{}", group.to_uppercase())
}

/// The documentation of a group of functions, and the macro that declares them for a heap.
fn group_of(items: &[Item]) -> String {
    let (mut text, mut body) = (String::new(), Vec::new());
    for item in items {
        if item.text.starts_with("pub struct $opaque") {
            body.push("typedef struct rt_HEAP rt_HEAP".to_string());
            continue;
        }
        let lines = broken(&prototype(item), "    ");
        text += &format!("// {};\n//\n{}\n", lines.join("\n// "), comment(&item.docs, ""));
        body.push(lines.join(" \\\n    ").replacen("rt_HEAP_", "rt_HEAP##_", 1));
    }
    let config = if body.iter().any(|line| line.contains("rt_CONFIG")) { ", rt_CONFIG" } else { "" };
    let name = macro_name(&items[0].group);
    text + &format!("#define {name}(rt_HEAP{config}) \\\n    {}\n\n", body.join("; \\\n    "))
}

/// An entry of a table of heaps.
struct Heap {
    /// Its summary and its cost classes.
    docs: Vec<String>,
    /// The name of its type.
    name: String,
    /// The type of its configuration, if it has its own.
    config: Option<String>,
    /// Its further groups of functions.
    abilities: Vec<String>,
}

/// Defines [`of_the_library`].
macro_rules! collect {
    ($(
        $(#[doc = $summary:literal])*
        $name:ident, $command:literal: $heap:ty, [$($ability:ident),*] {
            $(c: $opaque:ident $(by $config:ident)?,)?
            $(laboratory: { $($about:tt)* },)?
        }
    )*) => {
        /// The entries of the library's table that have a type in C.
        fn of_the_library() -> Vec<Heap> {
            let mut heaps = Vec::new();
            $(heaps.extend([$((stringify!($opaque), [$(stringify!($config))?].first().copied()))?].map(|(name, config): (&str, Option<&str>)| {
                let contract = <$heap as RegionAllocator<'static>>::CONTRACT;
                let costs = [("malloc", contract.allocate), ("free", contract.deallocate), ("realloc", contract.reallocate)];
                let costs = costs.map(|(operation, cost)| format!("{operation} {}", cost.notation()));
                let summary = [$($summary),*].map(|line: &str| line.trim().to_string());
                let abilities = [$(stringify!($ability)),*]
                    .into_iter()
                    .filter(|ability: &&str| ["regions", "limits", "limits_for_sizes"].contains(ability));
                Heap {
                    docs: summary.into_iter().chain(["# Time".into(), costs.join(", ") + "."]).collect(),
                    name: name.into(),
                    config: config.map(str::to_string),
                    abilities: abilities.map(str::to_string).collect(),
                }
            }));)*
            heaps
        }
    };
}

rtalloc::region_allocators!(collect, Offset32, WithStats);

/// The entries of a table.
fn heaps(table: &str) -> Vec<Heap> {
    let mut heaps = if table == "region_heaps" { of_the_library() } else { Vec::new() };
    for rows in read("src/allocators.rs").split(&format!("\n{table}! {{\n")).skip(1) {
        let (mut docs, mut row) = (Vec::new(), String::new());
        for line in rows.lines().map(str::trim).take_while(|line| *line != "}") {
            if let Some(doc) = line.strip_prefix("/// ") {
                docs.push(doc.to_string());
                continue;
            }
            row = row + line + " ";
            let Some(whole) = row.strip_suffix("; ") else { continue };
            let parts: Vec<_> = whole.split('"').collect();
            let costs = parts.iter().skip(1).step_by(2);
            let operations =
                if table == "handle_heaps" { ["allocate", "free", ""] } else { ["malloc", "free", "realloc"] };
            let costs: Vec<_> =
                operations.iter().zip(costs).map(|(operation, cost)| format!("{operation} {cost}")).collect();
            docs.extend(["# Time".to_string(), costs.join(", ") + "."]);
            let mut rest = parts.last().expect("what follows the costs").trim().split(", ");
            heaps.push(Heap {
                docs: std::mem::take(&mut docs),
                name: whole.split(',').next().expect("a name").to_string(),
                config: rest.next().and_then(|by| by.strip_prefix("by ")).map(str::to_string),
                abilities: rest.map(|ability| ability.split(' ').next().expect("a word").to_string()).collect(),
            });
            row.clear();
        }
    }
    heaps
}

/// The heaps of a table: a summary, the cost classes, and the lines that declare them.
fn declarations(table: &str) -> String {
    let mut text = String::new();
    for Heap { docs, name, config, abilities } in heaps(table) {
        let config = match table {
            "region_heaps" => format!(", {}", config.as_deref().unwrap_or("rt_heap_config")),
            _ => String::new(),
        };
        let heap = format!("{}({name}{config});", macro_name(table.trim_end_matches('s')));
        let abilities = abilities.iter().map(|group| format!("{}({name});", macro_name(group)));
        let uses: Vec<_> = [heap].into_iter().chain(abilities).collect();
        let line = uses.join(" ");
        text += &comment(&docs, "");
        text += &if line.len() > COLUMNS { uses.join("\n") } else { line };
        text += "\n\n";
    }
    text
}

/// A macro that lists heaps: `kind` is the macro that each is passed to.
fn list<'a>(define: &str, heaps: impl IntoIterator<Item = &'a Heap>, kind: impl Fn(&Heap) -> &'a str) -> String {
    let uses = heaps.into_iter().map(|heap| format!("    {}({})", kind(heap), heap.name.trim_start_matches("rt_")));
    let lines: Vec<_> = [format!("#define {define}")].into_iter().chain(uses).collect();
    let (last, before) = lines.split_last().expect("a line");
    before.iter().map(|line| format!("{line:<0$}\\\n", COLUMNS - 1)).collect::<String>() + last + "\n"
}

fn has(heap: &Heap, ability: &str) -> bool {
    heap.abilities.iter().any(|one| one == ability)
}

/// Compares a file with what it should be, or writes it.
fn agree(file: &str, old: &str, new: &str) {
    if std::env::var_os("UPDATE_HEADER").is_some() {
        fs::write(krate().join(file), new).expect("a file that can be written");
    } else {
        assert!(old == new, "{file} does not agree with the sources: run ci/header.sh --update");
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(krate().join(file)).unwrap_or_else(|error| panic!("cannot read {file}: {error}"))
}

#[test]
fn the_header_agrees_with_the_sources() {
    let old = read("include/rtalloc.h");
    let (introduction, _) = old.split_once("#ifndef RTALLOC_H").expect("the introduction, which is written by hand");
    let mut new = format!(
        "{introduction}#ifndef RTALLOC_H\n#define RTALLOC_H\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
    );
    let mut groups = Vec::new();
    for (title, files, tables) in SECTIONS {
        new += &format!("// {title}\n// {}\n\n", "-".repeat(title.len()));
        for file in files {
            for of_group in items(&read(&format!("src/{file}.rs"))).chunk_by(|one, next| one.group == next.group) {
                if of_group[0].group.is_empty() {
                    new.extend(of_group.iter().map(single));
                } else {
                    new += &group_of(of_group);
                    groups.push(macro_name(&of_group[0].group));
                }
            }
        }
        new.extend(tables.iter().map(|table| declarations(table)));
    }
    groups.iter().for_each(|group| new += &format!("#undef {group}\n"));
    new += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif // RTALLOC_H\n";
    let too_long = new.lines().find(|line| line.len() > COLUMNS);
    assert_eq!(too_long, None, "a line of the header is too long");
    agree("include/rtalloc.h", &old, &new);
}

#[test]
fn the_lists_agree_with_the_sources() {
    let (debug, plain): (Vec<_>, Vec<_>) = heaps("region_heaps").into_iter().partition(|heap| heap.config.is_some());
    let (shared, handle) = (heaps("shared_heaps"), heaps("handle_heaps"));
    let more = |heap: &Heap| if has(heap, "regions") { "MORE" } else { "ONE" };

    let file = "include/rtalloc.hpp";
    let old = read(file);
    let lists = [
        list("RTALLOC_ALLOCATORS(MORE, ONE)", &plain, more),
        list("RTALLOC_DEBUG_ALLOCATORS(MORE, ONE)", &debug, more),
        list("RTALLOC_SHARED_ALLOCATORS(SHARED)", &shared, |_| "SHARED"),
        list("RTALLOC_OBJECT_ALLOCATORS(WHOLE, PIECES)", &handle, |heap| {
            if has(heap, "contiguous") { "WHOLE" } else { "PIECES" }
        }),
    ];
    let new = lists.iter().fold(old.clone(), |text, list| {
        let define = &list[..list.find(')').expect("parameters")];
        let (before, rest) = text.split_once(define).expect("the list");
        let (_, after) = rest.split_once("\n\n").expect("an empty line after the list");
        format!("{before}{list}\n{after}")
    });
    agree(file, &old, &new);

    let file = "tests/allocators.h";
    let one = list("REGION_ALLOCATORS(X)", &plain, |_| "X");
    let more = list("MULTI_REGION_ALLOCATORS(X)", plain.iter().filter(|heap| has(heap, "regions")), |_| "X");
    let debug = list("DEBUG_ALLOCATORS(X)", &debug, |_| "X");
    let handle = list("HANDLE_ALLOCATORS(X)", &handle, |_| "X");
    let shared = list("SHARED_ALLOCATORS(X)", &shared, |_| "X");
    let new = format!(
        "// The heaps of rtalloc.h by kind, each as X(name). Written by tests/header.rs.\n#ifndef ALLOCATORS_H\n\
         #define ALLOCATORS_H\n\n{one}\n// Heaps with further regions.\n{more}\n\
         // TLSF with adapters for debugging, each with its own configuration.\n{debug}\n{handle}\n{shared}\n#endif\n"
    );
    agree(file, &read(file), &new);
}
