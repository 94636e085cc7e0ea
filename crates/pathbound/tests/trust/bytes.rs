//! Files with a changed bit: a certificate holds for one file only, and code with a longer path is always rejected.

use super::fixtures::{Fixture, known};
use super::library::Library;
use pathbound::arch::x86_64;
use pathbound::check::{check_proof, second_opinion};
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::{Bound, Certificate, Decline, ElfFile, Facts, Graph, Image, bound, check};
use std::sync::Arc;

/// Functions without loops, whose bounds need no facts.
const FUNCTIONS: &[&str] =
    &["diamond", "diamonds", "nested_diamonds", "conditional_returns", "calls_twice", "conditional_tail", "aborts"];

#[test]
fn every_changed_bit_is_detected_and_longer_paths_are_rejected() {
    let (mut altered, mut longer, mut obstacles, mut doubtful) = (0, 0, 0, 0);
    for fixture in known().iter().filter(|fixture| FUNCTIONS.contains(&fixture.name)) {
        let original = Original::new(fixture);
        for (at, bit) in original.bits() {
            let file = original.with_bit_changed(at, bit);
            let rejection = check(&original.certificate, &file, file.provenance()).expect_err("another file");
            assert!(rejection.reason.starts_with("it is about ") && rejection.address.is_none(), "{rejection}");
            let accepted = check_proof(&original.certificate.proof, &file).is_ok();
            original.both_decoders_see_the_change(&file);
            match original.bound(&file) {
                Ok(bound) if bound.most > original.certificate.proof.most => {
                    assert!(!accepted, "{}: bit {bit} of byte {at}: {}", fixture.name, bound.most);
                    longer += 1;
                }
                // The checker assumes, and reports, that returns go back to the caller.
                Err(Decline::Obstacle(obstacle, _)) if obstacle != Obstacle::UnmatchedReturn => {
                    assert!(!accepted, "{}: bit {bit} of byte {at}: {obstacle:?}", fixture.name);
                    obstacles += 1;
                }
                _ => {}
            }
            altered += 1;
            doubtful += u32::from(!original.decoders_agree(&file));
        }
    }
    assert!(doubtful * 100 < altered, "{doubtful} of {altered}");
    assert!(
        altered > 500 && longer > 30 && obstacles > 30,
        "{altered} altered: {longer} longer, {obstacles} obstacles"
    );
}

/// A file with a certificate about one of its functions.
struct Original {
    library: Library,
    content: Vec<u8>,
    graph: Arc<Graph>,
    certificate: Certificate,
    directory: tempfile::TempDir,
}

impl Original {
    fn new(fixture: &Fixture) -> Self {
        let library = fixture.library(std::slice::from_ref(&fixture.assembly));
        let entry = library.entry(0).address;
        let bound = library.bound(library.entry(0), &[]).expect("a bound");
        let graph = Graph::explore(&library.file, &[entry], &NeverReturns::default()).expect("code");
        let certificate = Certificate::of(&bound, library.file.provenance());
        let content = std::fs::read(&library.path).expect("the file");
        Self { library, content, graph, certificate, directory: tempfile::tempdir().expect("a directory") }
    }

    /// Every bit of the function's graph: the offset of its byte in the file, and its number.
    fn bits(&self) -> Vec<(usize, u8)> {
        let bytes = self.graph.nodes().flat_map(|(address, node)| {
            let code = &self.library.file.code(address).expect("code");
            let mut places = self.content.windows(code.len()).enumerate().filter(|(_, bytes)| bytes == code);
            let (place, _) = places.next().expect("the file has its code");
            place..place + usize::from(node.length)
        });
        bytes.flat_map(|byte| (0..8).map(move |bit| (byte, bit))).collect()
    }

    fn with_bit_changed(&self, at: usize, bit: u8) -> ElfFile {
        let mut content = self.content.clone();
        content[at] ^= 1 << bit;
        let path = self.directory.path().join("library.so");
        std::fs::write(&path, content).expect("written");
        ElfFile::open(&path).expect("an ELF file")
    }

    /// Whether both decoders agree on the reached code of a changed file. One of them knows a few more encodings.
    fn decoders_agree(&self, file: &ElfFile) -> bool {
        let graph = Graph::explore(file, &[self.certificate.proof.entry.0], &NeverReturns::default()).expect("code");
        second_opinion(&graph, file).is_ok()
    }

    fn bound(&self, file: &ElfFile) -> Result<Bound, Decline> {
        let entry = self.certificate.proof.entry.0;
        let graph = Graph::explore(file, &[entry], &NeverReturns::default()).expect("code");
        bound(file, &graph, entry, &Facts::default())
    }

    /// Asserts that the original's graph is rejected where its length or transfer differs from the changed file.
    fn both_decoders_see_the_change(&self, file: &ElfFile) {
        let decode = |file: &ElfFile, at| file.code(at).and_then(|code| x86_64::decode(code, at));
        let changed = self.graph.nodes().find(|(at, _)| decode(file, *at) != decode(&self.library.file, *at));
        let refused = second_opinion(&self.graph, file).err();
        assert_eq!(refused.and_then(|refused| refused.address), changed.map(|(address, _)| address));
    }
}
