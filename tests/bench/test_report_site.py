"""The front page and the files of a report: parsed back, with hostile text, and written again and again."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sceneact_gym import cli
from sceneact_gym.bench.report.charts import curve_chart, interval_chart
from sceneact_gym.bench.report.files import CSV_COLUMNS, as_csv, as_json, as_latex, latex_text
from sceneact_gym.bench.report.load import load_runs
from sceneact_gym.bench.report.pages import number, render, script_json
from sceneact_gym.bench.report.site import MARKER, front_page, write_site
from sceneact_gym.bench.report.summary import summarise
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators.published import TABLE_3
from sceneact_gym.tasks import TASKS
from tests.bench.synthetic import call, result, write_run

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&lt;\u2028\ud800"\'{{ 7*7 }}'


class Page(HTMLParser):
    """The elements of a page, and its tables as lists of rows of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._cell: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag == "small" and self._cell is not None:
            self._cell.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self._cell).split()))
            self._cell = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell.append(data)

    def table(self, *heads: str) -> list[dict[str, str]]:
        """The rows of the first table that has these columns; of two columns of one name, the first counts."""
        for table in self.tables:
            if set(heads) <= set(table[0]):
                return [dict(reversed(list(zip(table[0], row, strict=True)))) for row in table[1:]]
        raise LookupError(heads)


def page(*folders: Path) -> Page:
    return Page(render("index.html", **front_page(summarise(load_runs(folders)))))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A run of noop, and one that is better, without one case and with a fault."""
    look = [[call("execute_blender_code"), call("render_scene_view", images=["a"])], [call("submit")]]
    at = {"10": {"paper": 20.0, "strict": 2.0}}
    rows = [
        result(0, 70.0, 20.0, checkpoints=at),
        result(1, 90.0, 96.0, checkpoints=at),
        result(2, status="infra_error"),
    ]
    rows[2]["reason"] = "Blender ended with signal 9"
    traces = {row["key"]: look for row in rows}
    noop = [result(n, 60.0, 0.0, steps=1) for n in range(4)]
    return [
        write_run(tmp_path / "search", rows, cases=4, traces=traces, checkpoints=[10]),
        write_run(tmp_path / "noop", noop, agent="noop", cases=4),
    ]


def test_the_front_page_parsed_back(runs: list[Path]) -> None:
    found = page(*runs)
    paper, strict = (table for table in found.tables if table[0][:3] == ["Run", "Cases", "Overall"])
    assert paper[1][1:4] == ["2", "–", "80.0 | 70.0 to 90.0 | floor 60.0, +20.0"]
    assert strict[1][3] == "58.0 | 20.0 to 96.0 | floor 0.0, +58.0"
    assert paper[1][4] == "| ok 2 | agent error 0 | infra error 1 | missing 1"
    assert paper[2][3] == "60.0 | 60.0 to 60.0"
    detail = found.table("Task", "Run", "Protocol", "Bounds")
    assert [row["Bounds"] for row in detail] == ["40.0 to 90.0", "29.0 to 79.0", "60.0 to 60.0", "0.0 to 0.0"]
    assert [row["Floor from"] for row in detail] == ["noop", "noop", "–", "–"]
    (pair,) = found.table("First", "Second", "Pairs")
    assert (pair["First"], pair["Second"], pair["Pairs"], pair["Difference, paper"]) == ("search", "noop", "2", "+20.0")
    funnel = found.table("Stage", "search")
    assert [row["search"] for row in funnel] == [
        *(
            "4/4 100 %",
            "2/4 50 %",
            "2/2 100 %",
            "2/2 100 %",
            "2/2 100 %",
            "2/2 100 %",
            "2/2 100 %",
            "1/2 50 %",
            "1/1 100 %",
        )
    ]
    curve = found.table("Run", "Step", "Cases")
    assert [(row["Run"], row["Step"], row["paper"]) for row in curve] == [
        *[("search", "10", "20.0"), ("search", "30", "80.0")],
        # It ended before step 10.
        *[("noop", "10", "60.0"), ("noop", "30", "60.0")],
    ]
    spent = found.table("Task", "Run", "Episodes", "tokens")
    assert spent[0]["steps"] == "30.0 | 60" and spent[0]["tokens"] == "–" and spent[0]["cost, US$"] == "–"
    episodes = found.table("Case", "Status", "paper")
    assert len(episodes) == 7
    assert episodes[2]["Status"] == "infra_error | Blender ended with signal 9" and episodes[2]["paper"] == "–"
    links = [attrs["href"] for tag, attrs in found.elements if tag == "a"]
    assert "episodes/search/layout-layout-test-0000-r0.html" in links
    assert "search is not finished: 1 episode is missing." in found.text
    assert "bootstrap" in found.text and "5000 resamples" in found.text


def test_published_rows_are_apart_and_marked(runs: list[Path]) -> None:
    found = page(*runs)
    rows = found.table("Published configuration", "Reasoning", "Overall")
    assert len(rows) == len(TABLE_3) == 11
    assert rows[0] == {
        **{"Published configuration": "Doubao Seed 2.0 Pro", "Reasoning": "high", "Overall": "50.2", "Layout": "77.4"},
        **{"Camera": "34.5", "Articulated": "59.6", "Reconstruction": "8.8", "Dynamic": "70.7"},
    }
    assert "not directly comparable" in found.text and "other cases" in found.text


def test_charts_have_their_figures_as_text(runs: list[Path]) -> None:
    found = page(*runs)
    charts = [attrs for tag, attrs in found.elements if tag == "svg"]
    assert len(charts) == 3 and all(attrs["role"] == "img" for attrs in charts)
    ids = {attrs.get("id") for _, attrs in found.elements}
    assert all(set((attrs["aria-labelledby"] or "").split()) <= ids for attrs in charts)
    assert "search: step 10 20.0, step 30 80.0; noop: step 10 60.0, step 30 60.0" in found.text
    line = next(attrs["points"] for tag, attrs in found.elements if tag == "polyline")
    # 394 units wide from 34 on for 30 steps, 190 high from 10 on for 100 points: step 10 at 20, step 30 at 80.
    assert line == f"{34 + 394 / 3:.1f},162.0 428.0,48.0"


def test_marks_of_privileged_and_unconfined_runs(tmp_path: Path) -> None:
    oracle = write_run(tmp_path / "oracle", [result(0, 100.0, privileged=True)], agent="oracle", cases=1)
    loose = write_run(tmp_path / "loose", [result(0)], cases=1, isolation="off")
    text = page(oracle, loose).text
    assert text.count("privileged: reads the truth") == 2 and text.count("unconfined") == 2
    assert "No run of the agent noop is given" in text
    assert "privileged" not in page(loose).text.replace("marked privileged reads", "")


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    rows = [
        result(0, 0.0, status="agent_error", reason=HOSTILE, usage={"model": HOSTILE}),
        result(1, 50.0, setting={"blender": HOSTILE, "budget": 30}),
    ]
    folder = tmp_path / '<b onclick="alert(3)">'
    run = write_run(folder, rows, agent=HOSTILE, cases=2, toolset="paper")
    out = tmp_path / "out"
    loaded = load_runs([run])
    summary = summarise(loaded)
    write_site(loaded, summary, out, lambda line: None)
    found = Page((out / "index.html").read_text("utf-8"))
    assert [attrs for tag, attrs in found.elements if tag == "script"] == [{"src": "assets/report.js", "defer": None}]
    for tag, attrs in found.elements:
        assert tag != "img" and not any(name.startswith("on") for name in attrs)
    # It is still there to be read, surrogate and template marks included.
    assert (
        '</script><script>alert(1)</script><img src=x onerror="alert(2)">&lt;' in found.text
        and "{{ 7*7 }}" in found.text
    )
    for path in out.glob("episodes/*/*.html"):
        for tag, attrs in Page(path.read_text("utf-8")).elements:
            assert not any(name.startswith("on") for name in attrs) and attrs.get("src") != "x"
            assert tag != "script" or "alert(1)" not in str(attrs)
    assert json.loads(as_json(summary))["runs"][0]["agent"] == HOSTILE
    assert latex_text(r"a_b & 50% {$\x}~^#") == (
        r"a\_b \& 50\% \{\$\textbackslash{}x\}\textasciitilde{}\textasciicircum{}\#"
    )


def test_charts_escape_their_labels() -> None:
    point = {"step": 5, "mean": 50.0, "ci_low": 40.0, "ci_high": 60.0, "floor": None}
    for chart in (
        curve_chart("a", HOSTILE, [(0, HOSTILE, [point])]),
        interval_chart("a", HOSTILE, [(0, HOSTILE, point, point)]),
    ):
        found = Page(str(chart))
        assert not {"script", "img"} & {tag for tag, _ in found.elements}
        # In the title, in the description, and beside its mark, where long names are cut.
        assert found.text.count("</script><script>alert(1)") >= 3


def test_json_for_scripts_cannot_leave_its_element() -> None:
    value = {"text": HOSTILE, "number": 1.5}
    made = str(script_json(value))
    assert not re.search("[<>&\u2028\u2029]", made) and json.loads(made) == value
    with pytest.raises(ValueError):
        script_json(float("nan"))


def test_numbers_for_people() -> None:
    assert number(None) == "–" and number(float("nan")) == "–"
    assert (number(-0.04), number(-3.25, sign=True), number(2.0, sign=True), number(0.0, sign=True)) == (
        *("0.0", "\N{MINUS SIGN}3.2", "+2.0", "0.0"),
    )
    assert number(1234567, 0) == "1,234,567"


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_csv_has_a_line_per_run_task_and_protocol(runs: list[Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(summarise(load_runs(runs))))))
    assert tuple(rows[0]) == CSV_COLUMNS and len(rows) == 4
    expected = {
        **{"run": "search", "agent": "layout-search", "task": "layout", "protocol": "paper", "cases": "2"},
        **{"mean": "80.0", "ci_low": "70.0", "ci_high": "90.0", "floor": "60.0", "lift": "20.0"},
        **{"ok": "2", "agent_error": "0", "infra_error": "1", "missing": "1"},
        **{"bound_low": "40.0", "bound_high": "90.0", "steps": "30.0", "tool_calls": "40.0", "tokens": "", "cost": ""},
    }
    assert rows[0] == expected


def test_a_spreadsheet_finds_no_formula(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [result(0)], agent='=HYPERLINK("http://x")', cases=1)
    (row, _) = csv.DictReader(io.StringIO(as_csv(summarise(load_runs([run])))))
    assert row["agent"].startswith("'=")


def test_the_latex_table(runs: list[Path], tmp_path: Path) -> None:
    made = as_latex(summarise(load_runs(runs)))
    assert r"search & paper & 80.0 {\scriptsize [70.0, 90.0]} & -- \\" in made
    assert made.count(r"\\") == 5 and all(rule in made for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    oracle = write_run(tmp_path / "o_1", [result(0, 100.0, privileged=True)], agent="oracle", cases=1)
    assert r"o\_1$^\dagger$ & strict & 100.0 & -- \\" in as_latex(summarise(load_runs([oracle])))


# --- the folder -------------------------------------------------------------------------------------------------------


def report(*arguments: object) -> str:
    said = CliRunner().invoke(cli.app, ["report", *map(str, arguments)])
    assert said.exit_code == 0, (said.output, said.exception)
    return said.output


def test_the_command_writes_a_folder_and_replaces_it(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = [tmp_path / f"scores.{kind}" for kind in ("csv", "json", "tex")]
    said = report(*runs, "--out", out, "--csv", files[0], "--json", files[1], "--latex", files[2])
    assert str(out / "index.html") in said.replace("\n", "") and all(path.stat().st_size for path in files)
    assert len(list(out.glob("episodes/*/*.html"))) == 7
    first = (out / "index.html").read_bytes()
    (out / "episodes" / "search" / "old.html").write_text("of an earlier report")
    report(*runs, "--out", out)
    assert (out / "index.html").read_bytes() == first and not (out / "episodes" / "search" / "old.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    loads = [
        attrs.get("src") or attrs.get("href")
        for tag, attrs in Page(first.decode()).elements
        if tag in ("script", "link")
    ]
    assert all((out / str(path)).is_file() for path in loads if path != "data:,")


def test_only_files_where_only_files_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", [])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    report(run, "--json", "all.json")
    assert [path.name for path in Path().iterdir()] == ["all.json"]
    report(run)
    assert (tmp_path / "here" / "report" / MARKER).is_file()


def test_two_processes_write_what_one_writes(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_runs(runs)
    monkeypatch.setattr("sceneact_gym.bench.report.site.FEW_CASES", 2)
    written = []
    for jobs in (1, 2):
        out = tmp_path / f"out-{jobs}"
        write_site(loaded, summarise(loaded), out, lambda line: None, jobs)
        written.append({path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert written[0] == written[1] and any(path.match("episodes/*/*.html") for path in written[0])


def test_other_folders_are_left_alone(runs: list[Path], tmp_path: Path) -> None:
    loaded = load_runs(runs)
    (tmp_path / "file").write_text("")
    for out in (runs[0], tmp_path, tmp_path / "file"):
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(SceneActError, match="give --out"):
            write_site(loaded, summarise(loaded), out, lambda line: None)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    (tmp_path / "empty").mkdir()
    write_site([], summarise([]), tmp_path / "empty", lambda line: None)
    assert (tmp_path / "empty" / "index.html").is_file()


def test_a_report_that_fails_leaves_the_earlier_one(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    loaded = load_runs(runs)
    write_site(loaded, summarise(loaded), out, lambda line: None)
    before = (out / "index.html").read_bytes()
    # As a process leaves it that is killed; the number is no process's.
    (tmp_path / ".out.part-4194399").mkdir()

    def full(*arguments: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("sceneact_gym.bench.report.site.write_episode", full)
    with pytest.raises(OSError, match="no space"):
        write_site(loaded, summarise(loaded), out, lambda line: None)
    assert (out / "index.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_mistakes_end_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", [])
    for arguments, words in (
        ([str(tmp_path)], "has no config.json"),
        ([str(run), str(run), "--json", "x"], "is given twice"),
        ([str(run), "--out", str(run)], "neither empty nor an earlier report"),
        ([str(run), "--csv", str(tmp_path / "no" / "x.csv")], "cannot be written"),
    ):
        monkeypatch.setattr("sys.argv", ["sceneact", "report", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2 and words in capsys.readouterr().err.replace("\n", " ")


def test_five_hundred_episodes_fit_in_three_megabytes(tmp_path: Path) -> None:
    folders = five_hundred(tmp_path)
    out = tmp_path / "page.html"
    values = front_page(summarise(load_runs(folders)))
    assert len(values["episodes"]) == 500
    out.write_text(render("index.html", **values), encoding="utf-8")
    import sceneact_gym.bench.report as package

    loaded = [Path(package.__path__[0]) / name for name in ("style.css", "report.js")]
    assert out.stat().st_size + sum(path.stat().st_size for path in loaded) < 3_000_000


def five_hundred(where: Path) -> list[Path]:
    """Run folders with 500 episodes: four runs of 125, all tasks, without traces."""
    folders = []
    for name in ("noop", "one", "two", "three"):
        rows = [result(n, (7.0 * n) % 100, task=task, reason="why " * 40) for task in TASKS for n in range(18)][:125]
        folders.append(write_run(where / name, rows, agent=name, tasks=list(TASKS), cases=18, checkpoints=[10]))
    return folders
