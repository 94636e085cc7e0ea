//! `rtalloc reproduce` from the outside.

use assert_cmd::Command;
use rtalloc_lab::result::thesis::Thesis;

fn reproduce(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtalloc"));
    let output = command.env("COLUMNS", "120").arg("reproduce").args(arguments).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).expect("text")
}

#[test]
fn the_thesis_tables_stand_beside_ours() {
    let json = reproduce(&["thesis", "--seeds", "1", "--json"]);
    let thesis: Thesis = serde_json::from_str(&json).expect("both tables");
    assert_eq!(thesis.heap_bytes, 3 << 20);
    assert_eq!(
        thesis.tables.iter().map(|table| (table.number, table.rows.len())).collect::<Vec<_>>(),
        [(7, 7), (8, 7)]
    );
    for table in &thesis.tables {
        assert!(table.prefix_operations > 10_000 && table.prefix_operations <= table.operations);
        for row in &table.rows {
            let ours = row.ours.as_ref().unwrap_or_else(|what| panic!("{}: {what}", row.subject));
            for figures in [&ours.cut, &ours.prefix] {
                assert!(figures.live_bytes > 100_000.0 && figures.high_water_bytes <= (3 << 20) as f64, "{row:?}");
                assert!(figures.fragmentation > 0.0 && (0.0..=1.0).contains(&figures.overhead), "{row:?}");
            }
            assert!(ours.prefix.live_bytes <= ours.cut.live_bytes);
        }
        // Everybody has served the same.
        let prefix = |place: usize| table.rows[place].ours.as_ref().map(|ours| ours.prefix.live_bytes);
        assert!((1..table.rows.len()).all(|place| prefix(place) == prefix(0)));
    }
}

#[test]
fn the_tables_fit_the_terminal() {
    let text = reproduce(&["thesis", "--seeds", "1", "--heap", "1M"]);
    assert!(text.contains("table 7: uniform") && text.contains("table 8: small"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}
