//! Code that creates a heap: in Rust, C and C++.

use rtalloc_lab::result::heap_size::LimitFacts;
use rtalloc_subjects::{C_MORE_BYTES, one};
use std::fmt::Write as _;

/// A heap that is to be created.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The allocator's name.
    pub subject: &'a str,
    /// Its region in Rust.
    pub region_bytes: u64,
    /// The largest request of each pool, where sizes are chosen.
    pub pools: &'a [u64],
    /// Limits from which the region follows; empty if it was measured, or given.
    pub limits: &'a [LimitFacts],
    /// Whether the region was given, so that it is not larger in C.
    pub is_given: bool,
    /// Slots, of a heap that threads share.
    pub slots: u64,
}

/// The code; each text ends with a line end, and is a complete file without its `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// In Rust.
    pub rust: String,
    /// In C11.
    pub c: String,
    /// In C++17.
    pub cpp: String,
}

/// The code that creates a heap; `None` if the allocator is not in the libraries.
#[must_use]
pub fn code(wanted: Wanted<'_>) -> Option<Code> {
    let about = one(wanted.subject).ok()?.about;
    let Wanted { region_bytes, slots, .. } = wanted;
    if wanted.subject == "pooled-arenas" {
        return Some(pooled_arenas(region_bytes, slots));
    }
    if about.rust_type.is_empty() || about.c_type.is_empty() {
        return None;
    }
    let computed = about.region_for.is_some() && !wanted.limits.is_empty();
    let heap = written(about.rust_type);
    let pools = wanted.pools.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let (mut uses, mut constants, mut arguments, mut config) = ("", String::new(), "&LIMITS", "Default::default()");
    if !pools.is_empty() {
        uses = "use rtalloc::PoolSizes;\n";
        constants = format!("const SIZES: PoolSizes = PoolSizes::of(&[{pools}]);\n");
        (arguments, config) = ("SIZES, &LIMITS", "SIZES");
    }
    let mut bytes = region_bytes.to_string();
    if computed {
        uses = if pools.is_empty() {
            "use rtalloc::limits::Limit;\n"
        } else {
            "use rtalloc::PoolSizes;\nuse rtalloc::limits::Limit;\n"
        };
        constants += &limits(wanted.limits);
        constants += &format!("const REGION_BYTES: usize = Heap::region_bytes_for({arguments});\n");
        bytes = "REGION_BYTES".into();
    }
    if !constants.is_empty() {
        constants.push('\n');
    }
    let rust = format!(
        "use rtalloc::RegionAllocator;\n\
         use rtalloc::adapt::Memory;\n\
         {uses}\n\
         type Heap = {heap};\n\n\
         {constants}static MEMORY: Memory<{bytes}> = Memory::new();\n\n\
         /// The heap; `None` at the second call.\n\
         pub fn make_heap() -> Option<Heap> {{\n    \
             Heap::new(MEMORY.take()?, {config}).ok()\n\
         }}\n"
    );
    // The heaps of the C library count statistics.
    let bytes = if wanted.is_given { region_bytes } else { region_bytes + C_MORE_BYTES as u64 };
    let name = about.c_type;
    let (made, argument) = if pools.is_empty() {
        (format!("heap = {name}_init(memory, sizeof memory);\n    return heap != NULL;"), String::new())
    } else {
        let config = format!("static const {name}_config sizes = {{.largest_bytes = {{{pools}}}}};");
        let made = format!("return {name}_init_with(memory, sizeof memory, &sizes, &heap) == RT_OK;");
        (format!("{config}\n    {made}"), format!("({name}_config{{{{{pools}}}}})"))
    };
    let c = in_c(name, bytes, &made);
    let cpp = format!(
        "#include <rtalloc.hpp>\n\n\
         static rtalloc::static_heap<rtalloc::{}, {bytes}> heap{argument};\n",
        name.trim_start_matches("rt_")
    );
    Some(Code { rust, c, cpp })
}

fn in_c(name: &str, bytes: u64, made: &str) -> String {
    format!(
        "#include <rtalloc.h>\n\n\
         static _Alignas(max_align_t) unsigned char memory[{bytes}];\n\
         static {name} *heap;\n\n\
         int make_heap(void) {{\n    \
             {made}\n\
         }}\n"
    )
}

/// The type as written in the table of allocators, with full paths and without a default at its end.
fn written(rust_type: &str) -> String {
    let words: Vec<&str> = rust_type.split_whitespace().collect();
    let path = words.join(" ").replace("$crate", "rtalloc").replace(" ::", "::").replace(":: ", "::");
    let tight = path.replace(" <", "<").replace("< ", "<").replace(" >", ">").replace(" ,", ",").replace(",>", ">");
    tight.replace(", rtalloc::mechanism::stats::NoStats>", ">")
}

fn limits(limits: &[LimitFacts]) -> String {
    let mut text = format!("const LIMITS: [Limit; {}] = [\n", limits.len());
    for LimitFacts { objects, live_bytes, smallest_bytes, largest_bytes } in limits {
        let (kind, amount) = objects.map_or(("live", live_bytes.unwrap_or(0)), |objects| ("between", objects));
        let _ = writeln!(text, "    Limit::{kind}({amount}, {smallest_bytes}, {largest_bytes}),");
    }
    text + "];\n"
}

/// A heap of which each thread claims a slot. In C and C++, where it is `arenas`, it keeps no statistics.
fn pooled_arenas(bytes: u64, slots: u64) -> Code {
    Code {
        rust: format!(
            "use rtalloc::adapt::Memory;\n\
             use rtalloc::{{PooledArenas, PooledArenasConfig, SharedAllocator}};\n\n\
             static MEMORY: Memory<{bytes}> = Memory::new();\n\n\
             /// The heap, of which each thread claims a slot; `None` at the second call.\n\
             pub fn make_heap() -> Option<PooledArenas<'static>> {{\n    \
                 let config = PooledArenasConfig {{ slots: {slots}, ..PooledArenasConfig::default() }};\n    \
                 PooledArenas::new(MEMORY.take()?, config).ok()\n\
             }}\n"
        ),
        c: in_c(
            "rt_arenas",
            bytes,
            &format!("heap = rt_arenas_init(memory, sizeof memory, {slots});\n    return heap != NULL;"),
        ),
        cpp: format!(
            "#include <rtalloc.hpp>\n\n\
             static std::byte memory[{bytes}];\n\
             static rtalloc::shared_heap<rtalloc::arenas> heap(memory, {slots});\n"
        ),
    }
}

impl Code {
    /// All three, each below its language.
    #[must_use]
    pub fn text(&self) -> String {
        let indented = |code: &str| {
            let line = |line: &str| if line.is_empty() { "\n".into() } else { format!("    {line}\n") };
            code.lines().map(line).collect::<String>()
        };
        let (rust, c, cpp) = (indented(&self.rust), indented(&self.c), indented(&self.cpp));
        format!(
            "In Rust:\n\n{rust}\n\
             In C, on a 64-bit target (its bounds are higher: rt_HEAP_bound of RT_OPERATION_MALLOC):\n\n{c}\n\
             In C++, the same:\n\n{cpp}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_full_paths() {
        assert_eq!(
            written(
                "$crate :: Tlsf < 'static, 5, $crate::mechanism::segregated::RoundUp,\n a::Offset32, \
                 rtalloc::mechanism::stats::NoStats, >"
            ),
            "rtalloc::Tlsf<'static, 5, rtalloc::mechanism::segregated::RoundUp, a::Offset32>"
        );
    }
}
