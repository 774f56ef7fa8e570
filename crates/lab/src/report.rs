//! The report: one self-contained HTML page with all results and plots.

use crate::outcome::{Finding, Outcome, Part, Table, Verdict};
use crate::plot::{self, DrawError};
use std::fmt::Write;

/// The most rows of a table on the page; the CSV file has all.
const ROWS: usize = 40;

const STYLE: &str = include_str!("report/style.css");

/// Formats the page of these outcomes.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn html(outcomes: &[Outcome]) -> Result<String, DrawError> {
    let mut page = String::new();
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    page.push_str("<title>flowatch: experiments</title>\n<style>\n");
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n<main>\n");
    head(&mut page, outcomes);
    findings(&mut page, outcomes);
    for outcome in outcomes {
        section(&mut page, outcome)?;
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

/// Writes to the page; writing to a string does not fail.
macro_rules! put {
    ($page:expr, $($argument:tt)*) => {
        let _ = writeln!($page, $($argument)*);
    };
}

fn head(page: &mut String, outcomes: &[Outcome]) {
    put!(page, "<h1>flowatch: the papers' experiments</h1>");
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    let invalid: u64 = outcomes.iter().map(|outcome| outcome.trials.invalid).sum();
    let valid: u64 = outcomes.iter().map(|outcome| outcome.trials.valid).sum();
    put!(
        page,
        "<p>{} experiments, {valid} valid trials and {invalid} invalid ones, {seconds:.0} s. \
         An invalid trial is repeated and does not count; each experiment has the reasons of its invalid trials.</p>",
        outcomes.len()
    );
    if let Some(first) = outcomes.first() {
        put!(page, "<table class=\"origin\">");
        for (name, value) in first.provenance.pairs() {
            put!(
                page,
                "<tr><th>{}</th><td>{}</td></tr>",
                escape(&name),
                escape(&value)
            );
        }
        put!(page, "</table>");
    }
    if outcomes
        .windows(2)
        .any(|pair| pair[0].provenance.flowatch != pair[1].provenance.flowatch)
    {
        put!(
            page,
            "<p class=\"warning\">The experiments were run with different versions of flowatch: see each one.</p>"
        );
    }
}

fn findings(page: &mut String, outcomes: &[Outcome]) {
    put!(
        page,
        "<h2>The papers' findings</h2>\n<table class=\"findings\">"
    );
    put!(
        page,
        "<thead><tr><th>Experiment</th><th>The paper</th><th>Verdict</th><th>Here</th></tr></thead>\n<tbody>"
    );
    for outcome in outcomes {
        for (index, finding) in outcome.findings.iter().enumerate() {
            let name = if index == 0 {
                format!(
                    "<a href=\"#{0}\">{0}</a><br/><span class=\"small\">{1}</span>",
                    escape(&outcome.name),
                    escape(&outcome.title)
                )
            } else {
                String::new()
            };
            for (index, part) in finding.parts.iter().enumerate() {
                put!(page, "<tr>");
                if index == 0 {
                    let rows = finding.parts.len();
                    put!(page, "<td rowspan=\"{rows}\">{name}</td>");
                }
                put!(
                    page,
                    "<td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(claim(finding, part)),
                    mark(part.verdict),
                    escape(&part.reason)
                );
            }
        }
    }
    put!(page, "</tbody>\n</table>");
}

/// The statement of a part: the finding's if it is the only one.
fn claim<'a>(finding: &'a Finding, part: &'a Part) -> &'a str {
    if part.claim.is_empty() {
        &finding.paper
    } else {
        &part.claim
    }
}

fn mark(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Holds => "yes",
        Verdict::DoesNotHold => "no",
        Verdict::NotCompared => "unknown",
    };
    format!("<span class=\"mark {class}\">{}</span>", verdict.label())
}

fn finding_section(page: &mut String, finding: &Finding) {
    put!(
        page,
        "<p class=\"finding\"><em>{}</em></p>",
        escape(&finding.paper)
    );
    put!(page, "<ul class=\"parts\">");
    for part in &finding.parts {
        put!(
            page,
            "<li>{} <em>{}</em> {}</li>",
            mark(part.verdict),
            escape(&part.claim),
            escape(&part.reason)
        );
    }
    put!(page, "</ul>");
}

fn section(page: &mut String, outcome: &Outcome) -> Result<(), DrawError> {
    put!(page, "<section id=\"{}\">", escape(&outcome.name));
    put!(
        page,
        "<h2><span class=\"name\">{}</span> {}</h2>",
        escape(&outcome.name),
        escape(&outcome.title)
    );
    put!(
        page,
        "<p class=\"small\">{}. {}</p>",
        escape(&outcome.source),
        escape(&outcome.instrument)
    );
    for finding in &outcome.findings {
        finding_section(page, finding);
    }
    if !outcome.comparisons.is_empty() {
        put!(page, "<table class=\"comparison\">");
        put!(
            page,
            "<thead><tr><th></th><th>Paper</th><th>Here</th></tr></thead>\n<tbody>"
        );
        for comparison in &outcome.comparisons {
            put!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&comparison.what),
                escape(&comparison.paper),
                escape(&comparison.here)
            );
        }
        put!(page, "</tbody>\n</table>");
    }
    for figure in &outcome.figures {
        put!(
            page,
            "<figure>{}<figcaption>{}</figcaption></figure>",
            inline(&plot::svg(figure)?),
            escape(&figure.caption)
        );
    }
    for table in &outcome.tables {
        data(page, table);
    }
    for note in &outcome.notes {
        put!(page, "<p>{}</p>", escape(note));
    }
    trials(page, outcome);
    put!(page, "</section>");
    Ok(())
}

fn data(page: &mut String, table: &Table) {
    put!(page, "<div class=\"wide\"><table class=\"data\">");
    put!(
        page,
        "<caption>{}</caption>\n<thead><tr>",
        escape(&table.caption)
    );
    for column in &table.columns {
        put!(page, "<th>{}</th>", escape(column));
    }
    put!(page, "</tr></thead>\n<tbody>");
    for row in table.rows.iter().take(ROWS) {
        put!(page, "<tr>");
        for cell in row {
            let class = if cell.is_number() {
                " class=\"number\""
            } else {
                ""
            };
            put!(page, "<td{class}>{}</td>", escape(&cell.display()));
        }
        put!(page, "</tr>");
    }
    if table.rows.len() > ROWS {
        put!(
            page,
            "<tr><td colspan=\"{}\">and {} more in the CSV file</td></tr>",
            table.columns.len(),
            table.rows.len() - ROWS
        );
    }
    put!(page, "</tbody>\n</table></div>");
}

fn trials(page: &mut String, outcome: &Outcome) {
    put!(
        page,
        "<details><summary>How it was measured</summary>\n<table class=\"origin\">"
    );
    for (name, value) in outcome
        .settings
        .iter()
        .cloned()
        .chain(outcome.provenance.pairs())
    {
        put!(
            page,
            "<tr><th>{}</th><td>{}</td></tr>",
            escape(&name),
            escape(&value)
        );
    }
    let trials = &outcome.trials;
    put!(
        page,
        "<tr><th>trials</th><td>{} valid, {} invalid</td></tr>",
        trials.valid,
        trials.invalid
    );
    for (reason, count) in &trials.reasons {
        put!(
            page,
            "<tr><th>invalid, {count} times</th><td>{}</td></tr>",
            escape(reason)
        );
    }
    if !trials.example.is_empty() {
        put!(
            page,
            "<tr><th>books of the last trial</th><td>{}</td></tr>",
            escape(&trials.example)
        );
    }
    put!(
        page,
        "<tr><th>duration</th><td>{:.1} s</td></tr>",
        outcome.seconds
    );
    put!(page, "</table></details>");
}

/// Returns the SVG element of an SVG document.
fn inline(svg: &str) -> &str {
    svg.find("<svg").map_or(svg, |at| &svg[at..])
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
