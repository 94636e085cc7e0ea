//! `rtalloc record` on real processes: small C programs, compiled here, whose every call is known.
//!
//! The blocks of a test have sizes that the C library's own start-up never asks for, from [`OWN_BYTES`] on, so that the
//! trace can be compared call by call. Needs a C compiler as `cc`.

use super::RTALLOC;
use rtalloc_lab::record::{Findings, RawLog, RawReader, RecordError, convert, launch};
use rtalloc_lab::trace::{Cause, Event, Incomplete, Meta, Op, Origin, Reader, TickUnit, Totals, Writer};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Blocks from this size on are the test program's.
const OWN_BYTES: u64 = 1_000_000;

/// A directory with one compiled program in it.
struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

/// What one recording gave.
struct Recorded {
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    summary: serde_json::Value,
    events: Vec<Event>,
    totals: Totals,
}

impl Bench {
    fn compile(source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(directory.path().join("program.c"), source).unwrap();
        // Without optimisation and builtins, the compiler leaves every call of malloc where it stands.
        let status = Command::new("cc")
            .args(["-O0", "-fno-builtin", "-pthread", "-D_GNU_SOURCE", "-Wall", "-Wno-alloc-size-larger-than"])
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(directory.path().join("program.c"))
            .status()
            .expect("a C compiler named cc");
        assert!(status.success(), "the test program does not compile");
        Self { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, options: &[&str], arguments: &[&str]) -> Command {
        // A shell that runs these tests in the background may have them ignore interrupts.
        let mut command = Command::new("env");
        command.args(["--default-signal", RTALLOC]);
        command.args(["record", "--output"]).arg(self.path("trace")).arg("--summary").arg(self.path("summary"));
        command.args(options).arg("--").arg(&self.program).args(arguments);
        command
    }

    fn record(&self, options: &[&str], arguments: &[&str]) -> Recorded {
        let output = self.command(options, arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let summary = std::fs::read_to_string(self.path("summary")).unwrap_or_else(|_| panic!("no summary: {stderr}"));
        let (events, totals) = read(&self.path("trace"));
        Recorded {
            exit_code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr,
            summary: serde_json::from_str(&summary).unwrap(),
            events,
            totals,
        }
    }
}

impl Recorded {
    fn finding(&self, name: &str) -> u64 {
        self.summary["findings"][name].as_u64().unwrap_or_else(|| panic!("no finding {name}: {}", self.summary))
    }

    /// The recording missed nothing and invented nothing.
    fn assert_clean(&self) {
        for name in ["unknown_frees", "unknown_reallocations", "missed_frees", "unfinished", "lost"] {
            assert_eq!(self.finding(name), 0, "{name}: {}", self.stderr);
        }
    }
}

/// All events of a trace; the reader judges them on the way.
fn read(path: &Path) -> (Vec<Event>, Totals) {
    let mut reader = Reader::open(path).unwrap();
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    while reader.next_chunk(&mut chunk).unwrap() {
        events.append(&mut chunk);
    }
    let totals = reader.totals().unwrap().clone();
    (events, totals)
}

/// What a trace says of itself.
fn header(path: &Path) -> Meta {
    Reader::open(path).unwrap().meta().clone()
}

/// The events of the test program's own blocks as text: `+SIZE/ALIGN`, `SIZE>SIZE/ALIGN`, `-SIZE`.
fn own(events: &[Event]) -> Vec<String> {
    let mut sizes = HashMap::new();
    let mut lines = Vec::new();
    for event in events {
        match event.op {
            Op::Allocate { slot, size, align } => {
                sizes.insert(slot, size);
                if size >= OWN_BYTES {
                    lines.push(format!("+{size}/{align}"));
                }
            }
            Op::Reallocate { slot, size, align } => {
                let before = sizes.insert(slot, size).unwrap();
                if size >= OWN_BYTES {
                    lines.push(format!("{before}>{size}/{align}"));
                }
            }
            Op::Free { slot } => {
                let size = sizes.remove(&slot).unwrap();
                if size >= OWN_BYTES {
                    lines.push(format!("-{size}"));
                }
            }
        }
    }
    lines
}

#[test]
fn every_entry_of_the_allocator_becomes_the_event_it_is() {
    let bench = Bench::compile(
        r#"
        #include <errno.h>
        #include <malloc.h>
        #include <stdint.h>
        #include <stdlib.h>
        #include <string.h>
        #define CHECK(condition) if (!(condition)) return __LINE__ % 200 + 20
        int main(void) {
            volatile size_t too_much = PTRDIFF_MAX;
            void *a = malloc(1000001), *b, *c;
            memset(a, 7, 1000001);
            a = realloc(a, 1000002);
            a = realloc(a, 3000003);
            CHECK(((char *)a)[1000000] == 7);
            b = calloc(3, 500001);
            CHECK(((char *)b)[1500002] == 0);
            CHECK(realloc(b, too_much) == NULL && errno == ENOMEM);
            b = reallocarray(b, 4, 500001);
            CHECK(reallocarray(b, too_much, 4) == NULL && errno == ENOMEM);
            CHECK(calloc(too_much, 4) == NULL);
            CHECK(malloc(too_much) == NULL);
            free(a);
            c = realloc(NULL, 1000005);
            CHECK(realloc(c, 0) == NULL);
            free(b);
            free(NULL);
            free(malloc(0));
            c = aligned_alloc(4096, 1003520);
            CHECK((uintptr_t)c % 4096 == 0);
            free(c);
            errno = 77;
            CHECK(posix_memalign(&c, 24, 1000006) == EINVAL);
            CHECK(posix_memalign(&c, 64, too_much) == ENOMEM);
            CHECK(posix_memalign(&c, 64, 1000006) == 0 && (uintptr_t)c % 64 == 0 && errno == 77);
            c = realloc(c, 1000106);
            free(c);
            c = memalign(100, 1000007);
            CHECK((uintptr_t)c % 128 == 0);
            free(c);
            c = valloc(1000008);
            CHECK((uintptr_t)c % 4096 == 0);
            CHECK(malloc_usable_size(c) >= 1000008);
            free(c);
            c = pvalloc(1000009);
            free(c);
            for (int i = 0; i < 30000; i++) free(malloc(1));
            CHECK(errno == 77);
            return 0;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    assert_eq!(
        own(&recorded.events),
        [
            "+1000001/16",
            "1000001>1000002/16",
            "1000002>3000003/16",
            "+1500003/16",
            "1500003>2000004/16",
            "-3000003",
            "+1000005/16",
            "-1000005",
            "-2000004",
            "+1003520/4096",
            "-1003520",
            "+1000006/64",
            "1000006>1000106/64",
            "-1000106",
            "+1000007/128",
            "-1000007",
            "+1000008/4096",
            "-1000008",
            "+1003520/4096",
            "-1003520",
        ]
    );
    recorded.assert_clean();
    assert_eq!(recorded.finding("refused"), 5);
    assert_eq!(recorded.finding("zero_sized"), 1);
    assert_eq!(recorded.totals.threads, 1);
    assert_eq!(recorded.totals.peak_live_bytes - recorded.totals.peak_live_bytes % OWN_BYTES, 5_000_000);
}

#[test]
fn the_first_allocations_and_those_after_closing_every_file_are_there() {
    let bench = Bench::compile(
        r#"
        #include <stdlib.h>
        #include <unistd.h>
        static void *block;
        static void earliest(void) { block = malloc(1000001); }
        __attribute__((section(".preinit_array"), used)) static void (*before_all)(void) = earliest;
        __attribute__((constructor)) static void early(void) { block = realloc(block, 1000002); }
        __attribute__((destructor)) static void late(void) { free(block); }
        int main(void) {
            for (int file = 3; file < 1024; file++) close(file);
            if (chdir("/")) return 1;
            clearenv();
            for (int i = 0; i < 40000; i++) free(malloc(1000003));
            return 0;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let own = own(&recorded.events);
    assert_eq!(own.len(), 2 + 80_000 + 1);
    assert_eq!(own[..2], ["+1000001/16", "1000001>1000002/16"]);
    assert!(own[2..80_002].chunks(2).all(|pair| pair == ["+1000003/16", "-1000003"]));
    assert_eq!(own[80_002], "-1000002");
    recorded.assert_clean();
}

#[test]
fn threads_never_show_an_address_live_twice_and_every_free_finds_its_block() {
    // Four threads hand each other blocks through a table of 64 places: the one that finds a block frees or grows it.
    // One arena for all, and sizes beyond the per-thread caches, so that a freed address is another thread's a moment
    // later.
    let bench = Bench::compile(
        r#"
        #include <malloc.h>
        #include <pthread.h>
        #include <stdatomic.h>
        #include <stdlib.h>
        static _Atomic(void *) table[64];
        static pthread_barrier_t together;
        static void *work(void *number) {
            unsigned state = (unsigned)(size_t)number * 2654435761u + 1;
            pthread_barrier_wait(&together);
            for (int i = 0; i < 200000; i++) {
                state = state * 1664525u + 1013904223u;
                _Atomic(void *) *place = &table[state >> 26];
                void *block = malloc(1100 + (state >> 8) % 2 * 800);
                block = atomic_exchange(place, block);
                if (block && i % 4 == 0) block = realloc(block, 1100 + (state >> 12) % 2 * 800);
                free(block);
            }
            return NULL;
        }
        int main(void) {
            pthread_t threads[4];
            mallopt(M_ARENA_MAX, 1);
            pthread_barrier_init(&together, NULL, 4);
            for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
            for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
            for (int i = 0; i < 64; i++) free(table[i]);
            free(malloc(1000001));
            return 0;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    recorded.assert_clean();
    let mut allocations = [0; 5];
    for event in &recorded.events {
        if let Op::Allocate { .. } = event.op {
            allocations[event.thread as usize] += 1;
        }
    }
    // The main thread is number 0: it allocates what the others start with.
    assert_eq!(allocations[1..], [200_000; 4]);
    assert_eq!(recorded.totals.threads, 5);
    assert!(recorded.finding("cross_thread_frees") > 500, "{}", recorded.stderr);
    assert_eq!(own(&recorded.events), ["+1000001/16", "-1000001"]);
    // Nothing of the threads' traffic is left: what lives at the end is the C library's own.
    assert!(recorded.totals.allocations - recorded.totals.frees < 50, "{:?}", recorded.totals);
}

#[test]
fn a_free_is_written_before_the_block_is_given_back() {
    // The C library ends the program inside the second free: what was written before the call is there.
    let bench = Bench::compile(
        "#include <stdlib.h>\nint main(void) { void *block = malloc(24); free(block); free(block); return 0; }",
        &[],
    );
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(128 + 6), "{}", recorded.stderr);
    assert_eq!(recorded.finding("unknown_frees"), 1);
}

#[test]
fn a_block_freed_by_another_thread_counts_once() {
    let bench = Bench::compile(
        r#"
        #include <pthread.h>
        #include <stdlib.h>
        static void *blocks[7];
        static void *work(void *unused) { for (int i = 0; i < 7; i++) free(blocks[i]); return malloc(1000100); }
        int main(void) {
            pthread_t thread;
            void *block;
            for (int i = 0; i < 7; i++) blocks[i] = malloc(1000001 + i);
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, &block);
            free(block);
            return 0;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &[]);
    recorded.assert_clean();
    assert_eq!(recorded.finding("cross_thread_frees"), 8);
    let mut expected: Vec<_> = (1_000_001..1_000_008).map(|size| format!("+{size}/16")).collect();
    expected.extend((1_000_001..1_000_008).map(|size| format!("-{size}")));
    expected.extend(["+1000100/16".to_owned(), "-1000100".to_owned()]);
    assert_eq!(own(&recorded.events), expected);
}

#[test]
fn children_stay_out_of_their_parents_trace() {
    let bench = Bench::compile(
        r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            void *block = malloc(1000001);
            int status, sum = 0;
            for (int round = 0; round < 3; round++) {
                if (fork() == 0) {
                    free(block);
                    for (int i = 0; i < 20000; i++) free(malloc(2000002));
                    if (fork() == 0) { free(malloc(3000003)); _exit(1); }
                    wait(&status);
                    _exit(WEXITSTATUS(status));
                }
                free(malloc(1000002));
                wait(&status);
                sum += WEXITSTATUS(status);
            }
            sum += system("sh -c 'exit 4'") / 256;
            if (vfork() == 0) { execl("/bin/sh", "sh", "-c", "ls / | wc -l", (char *)NULL); _exit(100); }
            wait(&status);
            free(block);
            return sum;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(7), "{}", recorded.stderr);
    recorded.assert_clean();
    let inside = ["+1000002/16", "-1000002"];
    assert_eq!(own(&recorded.events), [&["+1000001/16"][..], &inside, &inside, &inside, &["-1000001"]].concat());
    assert_eq!(recorded.finding("programs"), 1);
}

#[test]
fn a_program_that_replaces_itself_is_recorded_under_its_last_name() {
    let bench = Bench::compile(
        r#"
        #include <stdlib.h>
        #include <unistd.h>
        int main(int count, char **arguments) {
            if (count == 2) {
                malloc(1000001);
                return execl(arguments[0], arguments[0], (char *)NULL);
            }
            free(malloc(1000002));
            return 9;
        }"#,
        &[],
    );
    let recorded = bench.record(&[], &["again"]);
    assert_eq!(recorded.exit_code, Some(9), "{}", recorded.stderr);
    recorded.assert_clean();
    assert_eq!(own(&recorded.events), ["+1000002/16", "-1000002"]);
    assert_eq!(recorded.finding("programs"), 2);
    assert_eq!(recorded.totals.threads, 1);
}

/// Allocates 20,000 blocks of known sizes and is killed.
const KILLED: &str = r#"
    #include <signal.h>
    #include <stdlib.h>
    int main(void) {
        for (int i = 0; i < 20000; i++) if (!malloc(1000000 + i)) return 1;
        raise(SIGKILL);
    }"#;

#[test]
fn a_killed_program_leaves_everything_up_to_its_last_call() {
    let bench = Bench::compile(KILLED, &[]);
    let recorded = bench.record(&[], &[]);
    assert_eq!(recorded.exit_code, Some(128 + 9));
    let incomplete = Incomplete { cause: Cause::Killed, missing: Some(0), signal: Some(9) };
    assert_eq!(header(&bench.path("trace")).incomplete, Some(incomplete));
    recorded.assert_clean();
    let expected: Vec<_> = (0..20_000).map(|i| format!("+{}/16", 1_000_000 + i)).collect();
    assert_eq!(own(&recorded.events), expected);
}

fn meta() -> Meta {
    Meta {
        name: "test".into(),
        about: "test".into(),
        origin: Origin::Program { command: vec!["test".into()] },
        tick_unit: TickUnit::Nanoseconds,
        created_unix_seconds: None,
        incomplete: None,
    }
}

fn convert_to(path: &Path, log: &Path) -> Result<Findings, RecordError> {
    let mut writer = Writer::create(path, &meta()).unwrap();
    let findings = convert(RawReader::open(log)?, &mut writer)?;
    writer.finish().unwrap();
    Ok(findings)
}

#[test]
fn a_raw_log_that_is_cut_off_or_has_gaps_gives_what_is_there() {
    let bench = Bench::compile(KILLED, &[]);
    let log = RawLog::create(bench.directory.path(), 1 << 30).unwrap();
    launch(&log, &[bench.program.clone().into()]).unwrap();
    let trace = bench.path("trace");
    let findings = convert_to(&trace, &log.log_path()).unwrap();
    assert_eq!(findings.unfinished, 0);
    let (whole, _) = read(&trace);

    // A gap: the tag of the record that is the last but one.
    let raw = OpenOptions::new().read(true).write(true).open(log.log_path()).unwrap();
    let records = whole.len() as u64;
    raw.write_all_at(&[0; 8], 4096 + (records - 2) * 32 + 24).unwrap();
    let findings = convert_to(&trace, &log.log_path()).unwrap();
    assert_eq!(findings.unfinished, 1);
    let (gapped, _) = read(&trace);
    assert_eq!(gapped.len(), whole.len() - 1);
    assert_eq!(gapped[..whole.len() - 2], whole[..whole.len() - 2]);

    // Cut off in the middle of a record.
    raw.set_len(4096 + 1000 * 32 + 17).unwrap();
    let findings = convert_to(&trace, &log.log_path()).unwrap();
    assert_eq!(findings.unfinished, records - 1000);
    assert_eq!(read(&trace).0, whole[..1000]);

    for length in [4096, 100, 0] {
        raw.set_len(length).unwrap();
        let outcome = convert_to(&trace, &log.log_path());
        if length == 4096 {
            assert_eq!(outcome.unwrap().unfinished, records);
        } else {
            assert!(matches!(outcome, Err(RecordError::ForeignLog { .. })), "{outcome:?}");
        }
    }
    std::fs::write(log.log_path(), vec![b'x'; 10_000]).unwrap();
    assert!(matches!(convert_to(&trace, &log.log_path()), Err(RecordError::ForeignLog { .. })));
}

#[test]
fn a_full_log_ends_the_recording_and_not_the_program() {
    let bench = Bench::compile(
        r#"
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            void *block = NULL;
            for (int i = 0; i < 100000; i++) block = realloc(block, 1000000 + i);
            return write(1, "done", 4) == 4 ? 3 : 4;
        }"#,
        &[],
    );
    let recorded = bench.record(&["--log-limit-mib", "1"], &[]);
    assert_eq!(
        (recorded.exit_code, recorded.stdout.as_str()),
        (Some(123), "done"),
        "not the program's 3: calls are missing"
    );
    let capacity = (1 << 20) / 32 - 4096 / 32;
    let kept = own(&recorded.events);
    let startup = recorded.events.len() - kept.len();
    // The first realloc is an allocation of one record, each later one has two.
    assert_eq!(kept.len(), 1 + (capacity - startup - 1) / 2);
    assert_eq!(kept.len() as u64 + recorded.finding("lost"), 100_000);
    assert_eq!(recorded.summary["findings"]["stop_reason"], "limit");
    assert!(recorded.stderr.contains("--log-limit-mib"), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("exit status: 3"), "{}", recorded.stderr);
    let incomplete = Incomplete { cause: Cause::LogLimit, missing: Some(recorded.finding("lost")), signal: None };
    assert_eq!(header(&bench.path("trace")).incomplete.as_ref(), Some(&incomplete));
    assert_eq!(recorded.summary["incomplete"]["cause"], "log-limit");
    let inspected = Command::new(RTALLOC).arg("inspect").arg(bench.path("trace")).output().unwrap();
    let text = String::from_utf8(inspected.stdout).unwrap();
    assert!(text.contains(&format!("INCOMPLETE        {incomplete}")), "{text}");
}

#[test]
fn a_program_that_allocates_nothing_is_recorded() {
    let bench = Bench::compile("int main(void) { return 5; }", &[]);
    let recorded = bench.record(&[], &[]);
    assert_eq!((recorded.exit_code, recorded.totals.events), (Some(5), 0), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("the program allocated nothing"), "{}", recorded.stderr);
    assert_eq!(header(&bench.path("trace")).incomplete, None);
    let bench = Bench { program: "true".into(), ..bench };
    assert_eq!(bench.record(&[], &[]).exit_code, Some(0));
}

#[test]
fn an_interrupt_after_the_program_ended_leaves_nothing() {
    let bench = Bench::compile(
        r#"
        #include <stdlib.h>
        int main(void) {
            for (int i = 0; i < 3000000; i++) free(malloc(16));
            return 0;
        }"#,
        &[],
    );
    let logs = bench.path("logs");
    std::fs::create_dir(&logs).unwrap();
    std::fs::write(bench.path("trace"), "yesterday's").unwrap();
    let options = ["--log-directory", logs.to_str().unwrap()];
    let mut recording = bench.command(&options, &[]).stdout(Stdio::piped()).spawn().unwrap();
    // The log goes before the trace is made.
    let deadline = Instant::now() + Duration::from_secs(100);
    while std::fs::read_dir(&logs).unwrap().count() == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    while std::fs::read_dir(&logs).unwrap().count() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let terminated = Command::new("kill").args(["-TERM", &recording.id().to_string()]).status().unwrap();
    assert!(terminated.success());
    assert_eq!(recording.wait().unwrap().signal(), Some(15), "it was still at work");
    assert_eq!(std::fs::read_to_string(bench.path("trace")).unwrap(), "yesterday's");
    let mut names: Vec<_> =
        bench.directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["logs", "program", "program.c", "trace"]);
}

#[test]
fn the_program_keeps_its_input_its_output_and_its_signals() {
    let bench = Bench::compile(
        r#"
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static volatile sig_atomic_t terminated;
        static void on_terminate(int signal) { terminated = 1; }
        int main(void) {
            char line[80];
            struct sigaction interrupt;
            sigaction(SIGINT, NULL, &interrupt);
            if (interrupt.sa_handler != SIG_DFL) return 1;
            if (!fgets(line, sizeof line, stdin)) return 2;
            signal(SIGTERM, on_terminate);
            printf("read %s", line);
            fflush(stdout);
            while (!terminated) usleep(1000);
            free(malloc(1000001));
            return 42;
        }"#,
        &[],
    );
    let mut recording =
        bench.command(&[], &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut recording.stdin.take().unwrap(), b"something\n").unwrap();
    let mut answer = String::new();
    BufReader::new(recording.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "read something\n");
    let terminated = Command::new("kill").args(["-TERM", &recording.id().to_string()]).status().unwrap();
    assert!(terminated.success());
    assert_eq!(recording.wait().unwrap().code(), Some(42));
    let mut said = String::new();
    recording.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("1 threads"), "{said}");
    assert_eq!(own(&read(&bench.path("trace")).0), ["+1000001/16", "-1000001"]);
}

#[test]
fn a_program_that_cannot_be_recorded_is_refused_with_the_reason() {
    let bench = Bench::compile(
        r#"
        void _start(void) {
        #if defined(__x86_64__)
            __asm__ volatile("syscall" : : "a"(60L), "D"(0L));
        #else
            __asm__ volatile("mov x8, 93; mov x0, 0; svc 0");
        #endif
        }"#,
        &["-nostdlib", "-static", "-fno-stack-protector"],
    );
    let output = bench.command(&[], &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("statically linked") && stderr.contains("link it dynamically"), "{stderr}");
    assert!(!bench.path("trace").exists(), "a recording that failed left a trace");

    let script = bench.path("script");
    std::fs::write(&script, format!("#!{}\n", bench.program.display())).unwrap();
    let bench = Bench { program: script, ..bench };
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&bench.program, permissions).unwrap();
    let output = bench.command(&[], &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("statically linked"), "{stderr}");

    let bench = Bench { program: bench.path("missing"), ..bench };
    let output = bench.command(&[], &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("cannot run") && stderr.contains("check its name"), "{stderr}");
}
