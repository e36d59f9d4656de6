use super::{
    super::synthetic::{axes, chapter, outcome, plot, policies},
    *,
};

fn error(toml: &str) -> String {
    let mut axes = axes();
    axes.push(Axis {
        name: "reports".to_owned(),
        values: ["heartbeat 1 s", "changes"].map(str::to_owned).to_vec(),
    });
    format!("{:#}", plot(toml).check(&axes, &policies()).expect_err("an error"))
}

fn drawn(toml: &str, chapter: &Chapter) -> String {
    let summary = Summary::new(&chapter.name, &chapter.axes, &chapter.policies, &chapter.outcomes);
    plot(toml).draw(chapter, &summary.expect("a summary")).expect("a plot")
}

fn chart(toml: &str, chapter: &Chapter) -> chart::Chart {
    let spec = plot(toml);
    let selection = spec.select(&chapter.axes, &chapter.policies).expect("a plot");
    let summary = Summary::new(&chapter.name, &chapter.axes, &chapter.policies, &chapter.outcomes);
    if spec.is_over_time() {
        time::chart(&spec, &selection, chapter).expect("a chart")
    } else {
        sweep::chart(&spec, &selection, &summary.expect("a summary")).expect("a chart")
    }
}

#[test]
fn errors_say_what_is_allowed() {
    let head = "title = 'T'\n";
    let says = |toml: &str, parts: &[&str]| {
        let error = error(&format!("{head}{toml}"));
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    };
    says("x = 'loud'\ny = 'goodput'", &["plot \"T\"", "`x` is \"loud\"", "load, reports, policy, time"]);
    says("x = 'load'\ny = 'good'", &["`y` is \"good\"", "goodput", "ttft_p99", "busy"]);
    says("x = 'time'\ny = 'ttft_p99'", &["over time", "offered, goodput, rejected, reuse, waiting"]);
    says("x = 'load'\ny = 'goodput'\nseries = 'load'", &["`x` and `series` are both load"]);
    says("x = 'load'\ny = 'goodput'", &["reports has 2 values", "choose one by `where`", "\"changes\""]);
    says(
        "x = 'load'\ny = 'goodput'\nwhere = { reports = 'x' }",
        &["reports has no value \"x\"", "heartbeat 1 s"],
    );
    says("x = 'load'\ny = 'goodput'\nseries = 'reports'", &["policy has 2 values", "\"a\", \"b\""]);
    says("x = 'load'\ny = 'goodput'\nwhere = { lood = 1 }", &["`where` is \"lood\""]);
    says(
        "x = 'reports'\ny = 'goodput'\nlog_x = true\nwhere = { load = 0.8 }",
        &["`log_x` is for an axis of numbers"],
    );
    let unknown =
        toml::from_str::<PlotSpec>("title = 'T'\nx = 'load'\ny = 'goodput'\nz = 1").expect_err("an error");
    assert!(unknown.to_string().contains("unknown field `z`"), "{unknown}");
}

#[test]
fn a_sweep_has_a_series_for_each_policy_a_band_and_the_bound() {
    let toml = "title = 'Goodput <by> load'\nx = 'load'\ny = 'goodput'";
    let chart = chart(toml, &chapter());
    let means = |index: usize| -> Vec<(f64, f64)> {
        chart.series[index].points.iter().map(|(x, spread)| (*x, spread.mean)).collect()
    };
    assert_eq!(means(0), [(0.8, 81.5), (1.3, 96.5), (1.6, 61.5)]);
    assert_eq!(means(1), [(0.8, 40.0), (1.3, 47.5), (1.6, 30.0)]);
    assert_eq!(chart.references[0].points, [(0.8, 100.0), (1.3, 100.0), (1.6, 100.0)]);
    assert_eq!((chart.x.label.as_str(), chart.y.label.as_str()), ("load", "goodput, requests/s"));

    let svg = drawn(toml, &chapter());
    assert!(svg.contains("aria-label=\"Goodput &lt;by> load\""), "{svg}");
    assert!(svg.contains("Goodput &lt;by&gt; load"), "{svg}");
    for text in ["\na\n", "\nb\n", "\nbound\n", "\n0.8\n", "\n1.6\n", "\ngoodput, requests/s\n"] {
        assert!(svg.contains(text), "no {text:?} in {svg}");
    }
    // A line through three points for each policy, and a band for the one whose seeds differ.
    let lines = |width: u32| {
        let begins = format!("stroke-width=\"{width}\" points=");
        svg.lines().filter(|line| line.contains(&begins) && line.matches(',').count() == 3).count()
    };
    assert_eq!((lines(3), lines(2)), (2, 1), "{svg}");
    assert_eq!(svg.matches("stroke-dasharray").count(), 2, "the bound, and its sample: {svg}");
    assert_eq!(svg.matches("opacity=\"0.18\"").count(), 1, "{svg}");
    assert_eq!(svg.matches("<svg ").count(), 1);
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn what_is_chosen_is_what_is_shown() {
    let chart = chart(
        "title = 'T'\nx = 'load'\ny = 'reuse'\nwhere = { policy = ['b'], load = [0.8, '1.6'] }",
        &chapter(),
    );
    assert_eq!(chart.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(chart.series[0].points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [0.8, 1.6]);
    assert_eq!(chart.subtitle, "policy b");
    assert!(chart.references.is_empty());
}

#[test]
fn an_axis_can_be_the_series_and_policies_the_axis() {
    let chart = chart("title = 'T'\nx = 'policy'\ny = 'ttft_p99'\nseries = 'load'\nlog_y = true", &chapter());
    assert_eq!(chart.kind, chart::Kind::Words);
    let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["load 0.8", "load 1.3", "load 1.6"]);
    assert_eq!(chart.series[1].points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [0.0, 1.0]);
    assert!(chart.y.is_log);
    assert_eq!(chart.y.label, "TTFT p99, ms");
}

#[test]
fn over_time_the_least_seed_of_each_policy_is_shown_beside_the_bound() {
    let toml = "title = 'T'\nx = 'time'\ny = 'goodput'\nwhere = { load = 1.3 }";
    let mut chapter = chapter();
    chapter.outcomes.insert(0, outcome("1.3", "a", 7, 10.0));
    let chart = chart(toml, &chapter);
    assert_eq!(chart.subtitle, "load 1.3, seed 1, means of 3 s");
    // Seconds of 96, 97, 98, 96 … in windows of three.
    let first: Vec<_> =
        chart.series[0].points.iter().take(2).map(|(at, spread)| (*at, spread.mean)).collect();
    assert_eq!(first, [(1.5, 97.0), (2.5, 97.0)]);
    assert_eq!((chart.series.len(), chart.series[0].points.len()), (2, 58));
    assert_eq!(
        (chart.references[0].of, chart.references[1].of),
        (chart::ReferenceOf::Offered, chart::ReferenceOf::Bound)
    );
    assert_eq!(chart.references[1].points, [(0.0, 100.0), (60.0, 100.0)]);
    let runs = plot(toml).runs_over_time(&chapter).expect("runs");
    let runs: Vec<_> =
        runs.iter().map(|run| (&*chapter.outcomes[*run].policy, chapter.outcomes[*run].seed)).collect();
    assert_eq!(runs, [("a", 1), ("b", 1)]);
    assert!(drawn(toml, &chapter).contains("\ntime, s\n"));
    let reuse = self::chart("title = 'T'\nx = 'time'\ny = 'reuse'\nwhere = { load = 1.3 }", &chapter);
    assert!(reuse.series[0].points.iter().all(|(_, spread)| (74.9..75.1).contains(&spread.mean)));
    assert!(reuse.references.is_empty());
}

#[test]
fn nothing_to_draw_is_an_error() {
    let mut chapter = chapter();
    chapter.outcomes.clear();
    let summary = Summary::new("small", &chapter.axes, &chapter.policies, &[]).expect("a summary");
    let error = chapter.plots[0].draw(&chapter, &summary).expect_err("an error");
    assert_eq!(format!("{error:#}"), "plot \"Goodput\" of small: no run has a figure to show");
}
