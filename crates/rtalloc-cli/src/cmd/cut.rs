//! The option `--at-most`: traces reduced to their small requests.

use anyhow::Context as _;
use rtalloc_lab::shipped::Unpacked;
use rtalloc_lab::trace::{self, Origin, Reader, Writer};
use std::io::BufWriter;
use std::path::PathBuf;

/// The traces with only the requests of at most `largest` bytes, in temporary files.
///
/// # Errors
///
/// A trace that cannot be read or has no such request, or no room for temporary files.
pub fn at_most(traces: &[PathBuf], largest: u64) -> anyhow::Result<Unpacked> {
    let mut unpacked = Unpacked::default();
    for path in traces {
        unpacked.add(|file| {
            let mut reader = Reader::open(path).with_context(|| path.display().to_string())?;
            let mut meta = reader.meta().clone();
            meta.about.push_str(&format!("; blocks of at most {largest} B only"));
            if let Origin::Model { parameters, .. } = &mut meta.origin {
                parameters.insert("cut_to_at_most_bytes".into(), largest.to_string());
            }
            let mut writer = Writer::new(BufWriter::new(file), &meta)?;
            let cut = trace::at_most(&mut reader, largest, &mut writer).with_context(|| path.display().to_string())?;
            anyhow::ensure!(
                cut.kept > 0,
                "{}: no request has at most {largest} bytes; choose a larger --at-most",
                path.display()
            );
            writer.finish().context("cannot write a cut trace to a temporary file")?;
            Ok(())
        })?;
    }
    Ok(unpacked)
}
