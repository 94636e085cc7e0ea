//! `rtalloc generate worst:ALLOCATOR` and `rtalloc costs` as a person meets them.

use super::{rtalloc_in, stderr, stdout};
use rtalloc_lab::result::costs::{Costs, Finding};
use rtalloc_lab::result::schema::{Outcome, Run};

/// The trace is the scenario: replayed in a heap of its size nothing fails, and the most that an operation executes is
/// what `rtalloc costs` counts.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_worst_case_is_a_trace_like_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let costs: Costs =
        serde_json::from_str(&stdout(rtalloc_in(at, "costs first-fit --json -").success())).expect("json");
    let allocate = &costs.subjects[0].operations[0];
    assert!(matches!(allocate.finding, Finding::AsStated(_)) && allocate.operation == "allocate");

    let said = stdout(rtalloc_in(at, "generate worst:first-fit --heap 64K").success());
    assert!(said.contains("worst-first-fit-allocate.rtrace") && said.contains("Puaut 2002, section 3.1.1"), "{said}");
    let run = "run worst-first-fit-allocate.rtrace --on first-fit --heap 64K --probe instructions --json -";
    let run: Run = serde_json::from_str(&stdout(rtalloc_in(at, run).success())).expect("json");
    let cell = &run.traces[0].cells[0];
    assert_eq!(cell.outcome, Outcome::Completed);
    let counted = cell.instructions.as_ref().expect("counted");
    assert_eq!(counted.allocate.max, allocate.points[0].instructions);
    assert_eq!(allocate.points[0].heap_bytes, 64 << 10);
}

/// Of quick-fit's recipes the paper's is the costlier one in small heaps, the harder one in large ones.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn without_a_choice_it_is_the_costliest_recipe_at_that_heap_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let costs: Costs =
        serde_json::from_str(&stdout(rtalloc_in(at, "costs quick-fit --json -").success())).expect("json");
    let point = &costs.subjects[0].operations[0].points[1];
    assert_eq!(point.heap_bytes, 256 << 10);
    let said = stdout(rtalloc_in(at, "generate worst:quick-fit --heap 256K").success());
    assert!(said.contains("Puaut 2002") && said.contains(&point.recipe), "{said}");
    let harder = stdout(rtalloc_in(at, "generate worst:quick-fit --heap 256K --recipe harder").success());
    assert!(!harder.contains(&point.recipe), "{harder}");
}

#[test]
fn worst_cases_are_asked_for_by_operation_and_recipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let paper = stdout(rtalloc_in(at, "generate worst:tlsf --operation free --recipe paper").success());
    assert!(paper.contains("worst-tlsf-deallocate.rtrace") && paper.contains("Masmano et al. 2008"), "{paper}");
    let harder = stdout(rtalloc_in(at, "generate worst tlsf --operation deallocate -o harder").success());
    assert!(harder.starts_with("harder:") && harder.contains("from the static bound"), "{harder}");
    assert!(!harder.contains("not known"), "{harder}");
    let within_reach = stdout(rtalloc_in(at, "--quiet generate worst:tlsf-small --heap 4M").success());
    assert!(within_reach.contains("worst-tlsf-small-allocate.rtrace"), "{within_reach}");
    let about = stdout(rtalloc_in(at, "inspect worst-tlsf-small-allocate.rtrace").success());
    assert!(about.contains("in a heap of 64.0 KiB"), "{about}");
    let borrowed = stdout(rtalloc_in(at, "generate worst:talc").success());
    assert!(borrowed.contains("the recipe is TLSF's, not known to be the worst case of talc"), "{borrowed}");
    let about = stdout(rtalloc_in(at, "inspect worst-talc-allocate.rtrace").success());
    assert!(about.contains("not known to be the worst case of talc"), "{about}");
    for (arguments, complaint) in [
        ("generate worst:unknown", "unknown"),
        ("generate worst:ours", "is a group"),
        ("generate worst:system", "takes its own pages"),
        ("generate worst:tlsf --recipe paper --operation reallocate", "available: harder"),
        (
            "generate worst:tlsf --operation allocate-aligned",
            "no worst case of allocate-aligned is known for tlsf; there are: allocate, deallocate, reallocate",
        ),
        ("generate worst:tlsf --recipe hardest", "there are: paper, harder"),
        ("generate worst:", "name an allocator for the worst case: rtalloc generate worst:tlsf"),
        ("generate worst:first-fit --heap 200 -o small", "first-fit needs a larger --heap than 200"),
        (
            "generate worst:quick-fit --heap 300 -o small",
            "quick-fit needs a larger --heap than 300: no heap of 300 bytes",
        ),
        ("costs talc", "talc states no cost classes to compare the counts with; choose one of ours"),
    ] {
        let said = stderr(rtalloc_in(at, arguments).failure());
        assert!(said.contains(complaint) && !said.contains("panicked"), "{arguments}: {said}");
    }
    assert!(!at.join("small").exists(), "a refused generation leaves no file");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn the_figure_is_a_file_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = stdout(rtalloc_in(folder.path(), "costs tlsf half-fit --plot costs.svg").success());
    assert!(table.contains("at most") && table.contains("64 MiB"), "{table}");
    let svg = std::fs::read_to_string(folder.path().join("costs.svg")).expect("written");
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("half-fit"), "{svg}");
}
