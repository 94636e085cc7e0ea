//! Multithreaded programs on third-party libraries, so that the pattern of requests is not ours. Every program in `bin`
//! calls `main`, each with its own global allocator, and prints a checksum, which depends on neither the allocator nor
//! the threads.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a program returns.
pub type Checked = Result<u64, Box<dyn Error>>;

/// Runs the program that the arguments name, and prints its checksum.
///
/// # Errors
///
/// Unknown arguments, and what the program returns.
pub fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let sum = match words[..] {
        ["rayon", threads] => rayon(threads.parse().map_err(|error| format!("{threads} threads: {error}"))?),
        ["search", directory] => search(directory),
        ["echo"] => echo(),
        _ => Err(format!("unknown arguments {words:?}; usage: PROGRAM rayon THREADS | search DIRECTORY | echo").into()),
    }?;
    println!("{sum:016x}");
    Ok(())
}

/// A pseudo-random number for each index.
fn mixed(index: u64) -> u64 {
    let mixed = (index ^ index >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Makes, sorts and counts words in a pool of threads, which free what other threads made.
fn rayon(threads: usize) -> Checked {
    use ::rayon::prelude::*;
    let pool = ::rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let sum = pool.install(|| {
        (0..12_u64).fold(0_u64, |sum, round| {
            let word = |index: u64| {
                let hash = mixed(index ^ round << 40);
                format!("{:0width$x}", hash % 50_000, width = (hash >> 59) as usize)
            };
            let mut words: Vec<String> = (0..120_000_u64).into_par_iter().map(word).collect();
            words.par_sort_unstable();
            let count = |mut counts: HashMap<String, u64>, word: String| {
                *counts.entry(word).or_default() += 1;
                counts
            };
            let both = |mut all: HashMap<String, u64>, some: HashMap<String, u64>| {
                for (word, times) in some {
                    *all.entry(word).or_default() += times;
                }
                all
            };
            let counts = words.into_par_iter().fold(HashMap::new, count).reduce(HashMap::new, both);
            let squares: u64 = counts.values().map(|times| times * times).sum();
            sum.rotate_left(5) ^ squares ^ (counts.len() as u64) << 32
        })
    });
    Ok(sum)
}

/// Searches all files of a directory for a pattern, in eight threads, with the libraries of ripgrep.
fn search(directory: &str) -> Checked {
    use grep::regex::RegexMatcher;
    use grep::searcher::{BinaryDetection, SearcherBuilder, sinks::UTF8};
    use ignore::{WalkBuilder, WalkState};
    let matcher = RegexMatcher::new(r"(?i)\b(un)?safe\w*|[a-z]+_(bytes|align)\b")?;
    let (lines, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    for _ in 0..24 {
        WalkBuilder::new(directory).standard_filters(false).threads(8).build_parallel().run(|| {
            let (matcher, lines, sum) = (matcher.clone(), &lines, &sum);
            let mut searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).build();
            Box::new(move |entry| {
                let Some(path) = entry.ok().map(|entry| entry.into_path()).filter(|path| path.is_file()) else {
                    return WalkState::Continue;
                };
                let mut found: Vec<String> = Vec::new();
                let keep = UTF8(|_, line| {
                    found.push(line.to_owned());
                    Ok(true)
                });
                // An error ends the search of this file; the lines found before it count.
                let _ = searcher.search_path(&matcher, &path, keep);
                lines.fetch_add(found.len() as u64, Relaxed);
                sum.fetch_add(found.iter().map(|line| mixed(line.len() as u64)).fold(0, u64::wrapping_add), Relaxed);
                WalkState::Continue
            })
        });
    }
    match lines.into_inner() {
        0 => Err(format!("no file in {directory} has a match").into()),
        lines => Ok(sum.into_inner() ^ lines),
    }
}

/// A server that returns what it reads, and 24 clients, on tokio's threads.
fn echo() -> Checked {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let (mut from, mut to) = stream.into_split();
                let (sender, mut messages) = mpsc::channel::<Vec<u8>>(16);
                tokio::spawn(async move {
                    while let Some(message) = messages.recv().await {
                        if to.write_all(&message).await.is_err() {
                            return;
                        }
                    }
                });
                tokio::spawn(async move {
                    while let Ok(bytes) = from.read_u32().await {
                        let mut message = vec![0; bytes as usize];
                        if from.read_exact(&mut message).await.is_err() || sender.send(message).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let clients: Vec<_> = (0..24_u64)
            .map(|client| {
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    let mut sum = 0_u64;
                    for number in 0..2500_u64 {
                        let hash = mixed(client << 32 | number);
                        let message = vec![hash as u8; 16 + (hash >> 32) as usize % 4000];
                        stream.write_u32(message.len() as u32).await?;
                        stream.write_all(&message).await?;
                        let mut answer = vec![0; message.len()];
                        stream.read_exact(&mut answer).await?;
                        sum = sum.rotate_left(1) ^ (answer.len() as u64) << 8 ^ u64::from(answer[answer.len() - 1]);
                    }
                    std::io::Result::Ok(sum)
                })
            })
            .collect();
        let mut sum = 0_u64;
        for client in clients {
            sum = sum.wrapping_add(client.await??);
        }
        Ok(sum)
    })
}
