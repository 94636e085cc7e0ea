//! The store of results: one SQLite file, to which every result is committed as soon as it is available.
//!
//! ```text
//! origin       binary, traces                      what all results come from; one row
//! environment  id, rtalloc, cpu, kernel, rustc ...  where they come from; a row for each process that added some
//! cell         key, experiment, environment, finished_unix, seconds, timed, result (JSON), sha256
//! ```
//!
//! A killed process loses only its current task: the journal is SQLite's, and each commit is synced to disk. Every
//! result has a checksum over all of its displayed parts, verified on every read. The schema's version is SQLite's
//! `user_version`; `application_id` identifies the file as a store of rtalloc.

use super::Task;
use crate::probe::environment::written;
use crate::result::schema::Environment;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// "RTAL".
const APPLICATION: i32 = 0x5254_414c;
/// The version of the schema.
const VERSION: i32 = 2;
/// How long to wait for another writing process.
const PATIENCE: Duration = Duration::from_secs(60);

const SCHEMA: &str = "
    CREATE TABLE origin (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        binary TEXT NOT NULL,
        traces TEXT NOT NULL
    ) STRICT;
    CREATE TABLE environment (
        id INTEGER PRIMARY KEY,
        rtalloc TEXT NOT NULL,
        cpu TEXT NOT NULL,
        cores INTEGER NOT NULL,
        kernel TEXT NOT NULL,
        rustc TEXT NOT NULL,
        binary TEXT NOT NULL,
        tsc_hz INTEGER NOT NULL,
        timer_overhead_ticks INTEGER NOT NULL,
        timer_step_ticks INTEGER NOT NULL,
        begun_unix INTEGER NOT NULL,
        UNIQUE (cpu, cores, kernel, rustc, binary, tsc_hz, timer_overhead_ticks, timer_step_ticks, begun_unix)
    ) STRICT;
    CREATE TABLE cell (
        key TEXT PRIMARY KEY,
        experiment TEXT NOT NULL,
        environment INTEGER NOT NULL REFERENCES environment (id),
        finished_unix INTEGER NOT NULL,
        seconds REAL NOT NULL,
        timed INTEGER NOT NULL,
        result TEXT NOT NULL,
        sha256 TEXT NOT NULL
    ) STRICT;
";

/// The common origin of all results of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The checksum of the program.
    pub binary: String,
    /// The checksum of the traces it ships with.
    pub traces: String,
}

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of SQLite.
    #[error("{0}")]
    Database(rusqlite::Error),
    /// Another program's file, a database or not.
    #[error("it is not a store of results of rtalloc; choose another file")]
    Foreign,
    /// A file of another version of the laboratory.
    #[error("it has version {found} of the schema, and this rtalloc knows {VERSION}; use the rtalloc that wrote it")]
    Version {
        /// The version found.
        found: i32,
    },
    /// Results of another program or of other traces.
    #[error(
        "it holds results of another {what} ({theirs}; here it is {ours}), which are not comparable; choose another file, or \
         look at them with `rtalloc export`"
    )]
    Origin {
        /// "build of rtalloc" or "set of traces".
        what: &'static str,
        /// Its checksum in the store.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// A result that is not valid JSON.
    #[error("the result of {key:?} cannot be read: {error}")]
    Result {
        /// Its key.
        key: String,
        /// Why.
        error: serde_json::Error,
    },
    /// Results that were changed after they were stored.
    #[error(
        "{} damaged (the checksum differs): {}; delete from the store (sqlite3 STORE \"DELETE FROM cell WHERE key = \
         '{}'\") and run the campaign again to measure what is missing",
        if keys.len() == 1 { "a result is" } else { "results are" }, keys.join(", "), keys[0].replace('\'', "''")
    )]
    Damaged {
        /// Their keys; at least one.
        keys: Vec<String>,
    },
    /// A counting task with two different results.
    #[error(
        "{key:?} is a counting task with two different results of the same program; one of the stores was changed, or a machine is \
         faulty: `rtalloc compare` shows where they differ"
    )]
    Differs {
        /// The task.
        key: String,
    },
    /// No such file.
    #[error("there is no such file")]
    Missing,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) { Self::Foreign } else { Self::Database(error) }
    }
}

/// Results, by task.
pub struct Store {
    connection: Connection,
    origin: Origin,
    /// The environment of the results that this process adds, with its row, once the first is added.
    environment: Option<(i64, Environment)>,
}

/// A result with its metadata.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// The task.
    pub key: String,
    /// Its experiment.
    pub experiment: String,
    /// Where it was performed.
    pub environment: Environment,
    /// When it finished: Unix time, seconds.
    pub finished_unix: u64,
    /// How long it took.
    pub seconds: f64,
    /// Whether it contains times, which vary from run to run; otherwise it is the same wherever it is performed.
    pub timed: bool,
    /// The result.
    pub result: Value,
}

/// The outcome of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Results that were added.
    pub added: usize,
    /// Results that were present already, and were kept.
    pub known: usize,
}

impl Store {
    /// A store in memory, gone when this process ends.
    ///
    /// # Errors
    ///
    /// An error of SQLite.
    pub fn in_memory(origin: Origin) -> Result<Self, StoreError> {
        Self::begin(Connection::open_in_memory()?, origin)
    }

    /// Opens a store to add results; creates it if the file does not exist.
    ///
    /// # Errors
    ///
    /// The file is not a store, or has another origin.
    pub fn open(path: &Path, origin: Origin) -> Result<Self, StoreError> {
        Self::begin(Connection::open(path)?, origin)
    }

    /// Opens a store of any origin to read it.
    ///
    /// # Errors
    ///
    /// The file is not a store.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing);
        }
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(PATIENCE)?;
        let origin = stored_origin(&connection)?.ok_or(StoreError::Foreign)?;
        Ok(Self { connection, origin, environment: None })
    }

    fn begin(mut connection: Connection, origin: Origin) -> Result<Self, StoreError> {
        connection.busy_timeout(PATIENCE)?;
        let change = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        match stored_origin(&change)? {
            None => {
                change.execute_batch(SCHEMA)?;
                change.pragma_update(None, "application_id", APPLICATION)?;
                change.pragma_update(None, "user_version", VERSION)?;
                change.execute(
                    "INSERT INTO origin (id, binary, traces) VALUES (1, ?1, ?2)",
                    params![origin.binary, origin.traces],
                )?;
            }
            Some(theirs) => agree(&origin, theirs)?,
        }
        change.commit()?;
        Ok(Self { connection, origin, environment: None })
    }

    /// Sets the environment of the results that this process [keeps](Self::keep).
    ///
    /// # Errors
    ///
    /// A store that cannot be written.
    pub fn measure(&mut self, here: &Environment) -> Result<(), StoreError> {
        self.environment = Some((add_environment(&self.connection, here)?, here.clone()));
        Ok(())
    }

    /// The origin of all its results.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the store has a result of a task.
    ///
    /// # Errors
    ///
    /// A store that cannot be read, or a result that is damaged.
    pub fn has(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.verified(key)?.is_some())
    }

    /// The result of a task, if it has one.
    ///
    /// # Errors
    ///
    /// A store that cannot be read, or a result that is damaged.
    pub fn get(&self, key: &str) -> Result<Option<Kept>, StoreError> {
        self.verified(key)?.map(Row::parsed).transpose()
    }

    fn verified(&self, key: &str) -> Result<Option<Row>, StoreError> {
        verified(&self.connection, key)
    }

    /// Stores the result of a task. If another process already stored one, that one is kept.
    ///
    /// # Errors
    ///
    /// A store that cannot be written.
    ///
    /// # Panics
    ///
    /// [The environment](Self::measure) is not set.
    pub fn keep(&mut self, experiment: &str, task: &Task, took: Duration, result: &Value) -> Result<(), StoreError> {
        let environment = self.environment.as_ref().expect("the environment is set");
        let kept = Kept {
            key: task.key.clone(),
            experiment: experiment.into(),
            environment: environment.1.clone(),
            finished_unix: unix_time(),
            seconds: took.as_secs_f64(),
            timed: task.timed,
            result: Value::Null,
        };
        insert(&self.connection, &kept, environment.0, &result.to_string())?;
        Ok(())
    }

    /// Every result, by key.
    ///
    /// # Errors
    ///
    /// A store that cannot be read, or damaged results: all of them are named.
    pub fn all(&self) -> Result<Vec<Kept>, StoreError> {
        let mut query = self.connection.prepare(&format!("{KEPT} ORDER BY key"))?;
        let rows = query.query_map([], row)?.collect::<Result<Vec<Row>, _>>()?;
        let keys: Vec<String> = rows.iter().filter(|row| row.is_damaged()).map(|row| row.kept.key.clone()).collect();
        if !keys.is_empty() {
            return Err(StoreError::Damaged { keys });
        }
        rows.into_iter().map(Row::parsed).collect()
    }

    /// Whether results of another store may be added.
    ///
    /// # Errors
    ///
    /// They are of another build or of other traces.
    pub fn admits(&self, other: &Store) -> Result<(), StoreError> {
        agree(&self.origin, other.origin.clone())
    }

    /// Adds the results of another store; results present already are kept. Idempotent.
    ///
    /// # Errors
    ///
    /// A store of another origin, or one in which a counting task has a different result; then nothing is added.
    pub fn merge(&mut self, other: &Store) -> Result<Merged, StoreError> {
        self.admits(other)?;
        let mut merged = Merged { added: 0, known: 0 };
        let change = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for kept in other.all()? {
            let environment = add_environment(&change, &kept.environment)?;
            let result = kept.result.to_string();
            let added = insert(&change, &kept, environment, &result)?;
            if added == 0 && verified(&change, &kept.key)?.is_some_and(|here| !kept.timed && here.text != result) {
                return Err(StoreError::Differs { key: kept.key });
            }
            merged.added += added;
            merged.known += 1 - added;
        }
        change.commit()?;
        Ok(merged)
    }
}

/// Adds a result, if there is none of that task yet.
const INSERT: &str = "
    INSERT OR IGNORE INTO cell (key, experiment, environment, finished_unix, seconds, timed, result, sha256)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// Adds a result whose JSON text is `result`, unless there is one of that task. Returns the number of rows added.
fn insert(connection: &Connection, kept: &Kept, environment: i64, result: &str) -> rusqlite::Result<usize> {
    let Kept { key, experiment, finished_unix, seconds, timed, .. } = kept;
    let sha256 = checksum(kept, result);
    connection.execute(INSERT, params![key, experiment, environment, finished_unix, seconds, timed, result, sha256])
}

/// The result of a task, if there is one and its checksum matches.
fn verified(connection: &Connection, key: &str) -> Result<Option<Row>, StoreError> {
    let mut query = connection.prepare_cached(&format!("{KEPT} WHERE key = ?1"))?;
    match query.query_row([key], row).optional()? {
        Some(row) if row.is_damaged() => Err(StoreError::Damaged { keys: vec![key.into()] }),
        found => Ok(found),
    }
}

/// SHA-256 of everything shown of a result, each part preceded by its length: key, experiment, environment, time of
/// completion, duration, whether it is timed, and the text of the result.
fn checksum(kept: &Kept, result: &str) -> String {
    let Kept { key, experiment, environment, finished_unix, seconds, timed, .. } = kept;
    let environment = serde_json::to_string(environment).expect("an environment can be written as JSON");
    let figures = format!("{finished_unix} {:016x} {timed}", seconds.to_bits());
    let mut sha256 = Sha256::new();
    for part in [key, experiment, &environment, &figures, result] {
        sha256.update((part.len() as u64).to_le_bytes());
        sha256.update(part);
    }
    written(&sha256.finalize())
}

/// Columns of a [`Kept`].
const KEPT: &str = "
    SELECT key, experiment, finished_unix, seconds, result, rtalloc, cpu, cores, kernel, rustc, binary, tsc_hz,
           timer_overhead_ticks, timer_step_ticks, begun_unix, timed, sha256
    FROM cell JOIN environment ON environment.id = cell.environment";

/// A result whose text is not parsed yet.
struct Row {
    kept: Kept,
    text: String,
    sha256: String,
}

impl Row {
    fn is_damaged(&self) -> bool {
        checksum(&self.kept, &self.text) != self.sha256
    }

    fn parsed(self) -> Result<Kept, StoreError> {
        let Self { kept, text, .. } = self;
        match serde_json::from_str(&text) {
            Ok(result) => Ok(Kept { result, ..kept }),
            Err(error) => Err(StoreError::Result { key: kept.key, error }),
        }
    }
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let kept = Kept {
        key: row.get(0)?,
        experiment: row.get(1)?,
        finished_unix: row.get(2)?,
        seconds: row.get(3)?,
        timed: row.get(15)?,
        result: Value::Null,
        environment: Environment {
            rtalloc: row.get(5)?,
            cpu: row.get(6)?,
            cores: row.get(7)?,
            kernel: row.get(8)?,
            rustc: row.get(9)?,
            binary: row.get(10)?,
            tsc_hz: row.get(11)?,
            timer_overhead_ticks: row.get(12)?,
            timer_step_ticks: row.get(13)?,
            unix_time: row.get(14)?,
        },
    };
    Ok(Row { kept, text: row.get(4)?, sha256: row.get(16)? })
}

/// The origin of a database's results; `None` if it is empty.
fn stored_origin(connection: &Connection) -> Result<Option<Origin>, StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = number("application_id")?;
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && objects == 0 {
        return Ok(None);
    }
    if application != APPLICATION {
        return Err(StoreError::Foreign);
    }
    match number("user_version")? {
        VERSION => {}
        found => return Err(StoreError::Version { found }),
    }
    let origin = connection.query_row("SELECT binary, traces FROM origin", [], |row| {
        Ok(Origin { binary: row.get(0)?, traces: row.get(1)? })
    })?;
    Ok(Some(origin))
}

fn agree(ours: &Origin, theirs: Origin) -> Result<(), StoreError> {
    let differ = |what, theirs, ours: &str| Err(StoreError::Origin { what, theirs, ours: ours.into() });
    if theirs.binary != ours.binary {
        return differ("build of rtalloc", theirs.binary, &ours.binary);
    }
    if theirs.traces != ours.traces {
        return differ("set of traces", theirs.traces, &ours.traces);
    }
    Ok(())
}

/// The row of an environment; added if new.
fn add_environment(connection: &Connection, here: &Environment) -> Result<i64, rusqlite::Error> {
    let facts = params![
        here.rtalloc,
        here.cpu,
        here.cores,
        here.kernel,
        here.rustc,
        here.binary,
        here.tsc_hz,
        here.timer_overhead_ticks,
        here.timer_step_ticks,
        here.unix_time
    ];
    connection.execute(
        "INSERT OR IGNORE INTO environment
             (rtalloc, cpu, cores, kernel, rustc, binary, tsc_hz, timer_overhead_ticks, timer_step_ticks, begun_unix)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        facts,
    )?;
    connection.query_row(
        "SELECT id FROM environment WHERE rtalloc = ?1 AND cpu = ?2 AND cores = ?3 AND kernel = ?4 AND rustc = ?5
             AND binary = ?6 AND tsc_hz = ?7 AND timer_overhead_ticks = ?8 AND timer_step_ticks = ?9 AND begun_unix = ?10",
        facts,
        |row| row.get(0),
    )
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::cycles::Clock;

    fn origin(binary: &str, traces: &str) -> Origin {
        Origin { binary: binary.into(), traces: traces.into() }
    }

    fn ours() -> Origin {
        origin("sha256:b", "sha256:t")
    }

    fn here() -> Environment {
        Environment::here(Clock::calibrate())
    }

    fn task(key: &str) -> Task {
        Task::timed(key.into(), 1)
    }

    /// A store with an environment, ready for results.
    fn memory(origin: Origin) -> Store {
        let mut store = Store::in_memory(origin).expect("a store");
        store.measure(&here()).expect("written");
        store
    }

    #[test]
    fn a_result_is_there_for_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.db");
        let value = serde_json::json!({ "instructions": 87, "mean": 0.1, "histogram": [[80, 3], [87, 1]] });
        let environment = here();
        let mut store = Store::open(&path, ours()).expect("a new store");
        store.measure(&environment).expect("written");
        assert!(!store.has("a").expect("read") && store.get("a").expect("read").is_none());
        store.keep("squares", &task("a"), Duration::from_millis(1500), &value).expect("kept");
        store.keep("squares", &task("a"), Duration::ZERO, &Value::Null).expect("ignored");
        // Not closed: the state that a killed process leaves.
        std::mem::forget(store);
        let store = Store::open(&path, ours()).expect("the store");
        assert!(store.has("a").expect("read"));
        let all = Store::read(&path).expect("the store").all().expect("read");
        let [kept] = &all[..] else { panic!("{all:?}") };
        assert_eq!((kept.key.as_str(), kept.experiment.as_str(), &kept.result), ("a", "squares", &value));
        assert_eq!(serde_json::to_value(&kept.environment).unwrap(), serde_json::to_value(&environment).unwrap());
        assert_eq!((kept.seconds, kept.timed), (1.5, true));
        assert_eq!(store.get("a").expect("read").map(|kept| kept.result), Some(value));
    }

    #[test]
    fn a_result_that_was_changed_is_reported_and_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, change) in [
            "UPDATE cell SET result = replace(result, '87', '78') WHERE key = 'it''s b'",
            "UPDATE cell SET seconds = seconds * 2 WHERE key = 'it''s b'",
            "UPDATE cell SET timed = 0 WHERE key = 'it''s b'",
            "UPDATE cell SET experiment = 'cubes' WHERE key = 'it''s b'",
            "UPDATE cell SET sha256 = '' WHERE key = 'it''s b'",
            "UPDATE cell SET key = 'x' WHERE key = 'a'; UPDATE cell SET key = 'a' WHERE key = 'it''s b';
             UPDATE cell SET key = 'it''s b' WHERE key = 'x'",
            "UPDATE environment SET cpu = 'a better one'",
        ]
        .into_iter()
        .enumerate()
        {
            let path = folder.path().join(format!("{number}.db"));
            let mut store = Store::open(&path, ours()).expect("a new store");
            store.measure(&here()).expect("written");
            for key in ["a", "it's b"] {
                let result = serde_json::json!({ "instructions": 87, "of": key });
                store.keep("squares", &task(key), Duration::from_secs(1), &result).expect("kept");
            }
            assert_eq!(store.all().expect("sound").len(), 2);
            store.connection.execute_batch(change).expect("changed");
            let damaged = |error: StoreError| match error {
                StoreError::Damaged { keys } => keys,
                other => panic!("{change}: {other}"),
            };
            assert!(damaged(store.get("it's b").expect_err("damaged")).contains(&"it's b".into()), "{change}");
            assert!(damaged(store.has("it's b").expect_err("damaged")).contains(&"it's b".into()), "{change}");
            let error = store.all().expect_err("damaged");
            let message = error.to_string();
            assert!(message.contains("it's b") && message.contains("DELETE FROM cell WHERE key = '"), "{message}");
            assert!(damaged(error).contains(&"it's b".into()), "{change}");
            let mut into = memory(ours());
            assert!(into.merge(&store).is_err() && into.all().expect("sound").is_empty(), "{change}");
            let mut other = memory(ours());
            other.keep("squares", &task("it's b"), Duration::ZERO, &Value::Null).expect("kept");
            assert!(matches!(store.merge(&other), Err(StoreError::Damaged { .. })), "{change}");
        }
    }

    #[test]
    fn merging_twice_is_merging_once() {
        let (mut first, mut second) = (memory(ours()), memory(ours()));
        first.keep("squares", &task("a"), Duration::ZERO, &Value::from(1)).unwrap();
        second.keep("squares", &task("a"), Duration::ZERO, &Value::from(2)).unwrap();
        second.keep("squares", &task("b"), Duration::ZERO, &Value::from(3)).unwrap();
        assert_eq!(first.merge(&second).unwrap(), Merged { added: 1, known: 1 });
        let stored_origin = |store: &Store| serde_json::to_string(&store.all().unwrap()).unwrap();
        let once = stored_origin(&first);
        assert_eq!(first.merge(&second).unwrap(), Merged { added: 0, known: 2 });
        assert_eq!(stored_origin(&first), once);
        assert_eq!(first.get("a").unwrap().unwrap().result, Value::from(1), "present results are kept");
    }

    #[test]
    fn counts_that_differ_are_refused() {
        let (mut first, mut second) = (memory(ours()), memory(ours()));
        let counted = |key: &str| Task::counted(key.into(), 1);
        first.keep("squares", &counted("b"), Duration::ZERO, &Value::from(1)).unwrap();
        second.keep("squares", &counted("a"), Duration::ZERO, &Value::from(3)).unwrap();
        second.keep("squares", &counted("b"), Duration::ZERO, &Value::from(2)).unwrap();
        assert!(matches!(first.merge(&second), Err(StoreError::Differs { key }) if key == "b"));
        assert_eq!(first.all().unwrap().len(), 1, "nothing is added");
    }

    #[test]
    fn results_of_another_origin_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.db");
        drop(Store::open(&path, ours()).expect("a new store"));
        for other in [origin("sha256:c", "sha256:t"), origin("sha256:b", "sha256:u")] {
            let error = Store::open(&path, other.clone()).err().expect("refused");
            assert!(matches!(error, StoreError::Origin { .. }), "{error}");
            let mut other = memory(other);
            other.keep("squares", &task("a"), Duration::ZERO, &Value::Null).unwrap();
            let mut store = Store::open(&path, ours()).expect("the store");
            assert!(matches!(store.merge(&other), Err(StoreError::Origin { .. })));
            assert!(store.all().unwrap().is_empty());
        }
    }

    #[test]
    fn a_file_that_is_not_a_store_is_refused_and_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        assert!(matches!(Store::read(&path).err(), Some(StoreError::Missing)));
        let text = "not a database, but long enough to be one: ".repeat(100);
        std::fs::write(&path, &text).unwrap();
        assert!(matches!(Store::open(&path, ours()).err(), Some(StoreError::Foreign)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let path = folder.path().join("other.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert!(matches!(Store::open(&path, ours()).err(), Some(StoreError::Foreign)));
        assert!(matches!(Store::read(&path).err(), Some(StoreError::Foreign)));
        let path = folder.path().join("later.db");
        drop(Store::open(&path, ours()).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        assert!(matches!(Store::open(&path, ours()).err(), Some(StoreError::Version { found: 7 })));
    }
}
