"""The page of an episode: synthetic run folders in, pages parsed back."""

from __future__ import annotations

import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sceneact_gym.bench.report import turntable
from sceneact_gym.bench.report.calls import read_record, timeline
from sceneact_gym.bench.report.episodes import write_episode
from sceneact_gym.bench.report.load import load_runs, page_of
from tests.bench import small_cases as small

HOSTILE = "</script></pre><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&"
VOID = {"meta", "link", "img", "input", "br", "rect", "circle", "path", "polyline"}


@pytest.fixture(autouse=True)
def rough_pictures(monkeypatch):
    """The pictures from around have their own tests; here they only have to be there."""
    monkeypatch.setattr(turntable, "SHARP", 1)


class Page(HTMLParser):
    """Elements with their attributes and their text, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self._open, "an element is not closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self._open.append((tag, self.elements[-1][2]))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for _, texts in self._open:
            texts.append(data)

    def all(self, tag, css_class=""):
        return [
            (attributes, "".join(texts))
            for name, attributes, texts in self.elements
            if name == tag and (not css_class or css_class in (attributes.get("class") or "").split())
        ]


def write(tmp_path, episodes, cases=None, **config):
    """Writes the pages of a run folder; returns the run, the report's folder and the parsed pages."""
    source = tmp_path / "cases"
    if not source.exists():
        known = {episode["case"].task + episode["case"].id: episode["case"] for episode in episodes}
        small.save_cases(source, list(known.values()) if cases is None else cases)
    small.run_folder(tmp_path / "run", source, episodes, **config)
    (run,) = load_runs([tmp_path / "run"])
    out = tmp_path / "report"
    out.mkdir()
    for row in run.rows:
        write_episode(run, row, out, page_of(run, row))
    return run, out, [Page(out / page_of(run, row)) for row in run.rows]


TURNS = [
    ([{"name": "get_scene_info", "arguments": {}}], [{"name": "get_scene_info", "text": "{}"}]),
    (
        [
            {"name": "execute_blender_code", "arguments": {"code": "x = 1\nprint(x < 2)"}},
            {"name": "render_scene_view", "arguments": {"camera": "view_00"}},
        ],
        [
            {"name": "execute_blender_code", "text": "line\n" * 40},
            {"name": "render_scene_view", "text": "Rendered.", "images": [small.picture(10, 32)]},
        ],
    ),
    ("I think that is it.", [{"text": "The action is not valid JSON", "is_error": True}]),
    ({"name": "set_object_pose", "arguments": {"name": "a", "x": 1}}, [{"name": "set_object_pose", "is_error": True}]),
    ([{"name": "submit", "arguments": {}}], [{"name": "submit"}]),
]


def episode(**more):
    return {"case": small.layout_case(), "submission": small.layout_submission(), "turns": TURNS, **more}


def test_all_calls_are_there_in_order_with_code_results_and_pictures(tmp_path):
    _, out, (page,) = write(tmp_path, [episode()])
    calls = page.all("article", "call")
    assert [attributes["id"] for attributes, _ in calls] == [
        *("call-1-1", "call-2-1", "call-2-2", "call-3-1", "call-4-1", "call-5-1")
    ]
    kinds = [next(c for c in attributes["class"].split() if c.startswith("k-")) for attributes, _ in calls]
    assert kinds == ["k-read", "k-edit", "k-render", "k-error", "k-error", "k-stop"]
    assert page.all("pre", "code") == [({"class": "code", "tabindex": "0"}, "x = 1\nprint(x < 2)")]
    assert ('camera = "view_00"' in calls[2][1]) and ('name = "a", x = 1' in calls[4][1])
    folded = [text for attributes, text in page.all("details") if "line\nline" in text]
    assert len(folded) == 1
    assert page.all("pre", "raw") == [({"class": "raw"}, "I think that is it.")]
    assert [text for _, text in page.all("section", "turn")][1].count("execute_blender_code") == 1
    prompts = [text for _, text in page.all("details", "prompt")]
    assert "The <rules>." in prompts[0] and "The task." in prompts[1]
    for name, size in ((small.picture(10, 32), "32"), (small.picture(200), "24")):
        file = hashlib.sha256(name).hexdigest() + ".png"
        (image,) = [attributes for attributes, _ in page.all("img") if attributes["src"].endswith(file)]
        assert (image["width"], image["height"], image["loading"]) == (size, size, "lazy") and image["alt"]
        assert (out / "images" / file).read_bytes() == name
    assert all(attributes.get("alt") for attributes, _ in page.all("img"))


def test_the_head_says_what_came_out(tmp_path):
    usage = {"calls": 5, "input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.0123}
    row = {"usage": usage, "metrics": {"add_s": 0.15, "pa": None, "n_extra": 2}}
    _, _, (page,) = write(tmp_path, [episode(row=row)])
    facts = dict(zip((text for _, text in page.all("dt")), (text for _, text in page.all("dd")), strict=True))
    assert facts["Score, paper"] == "50.0" and facts["Score, strict"] == "25.0" and facts["Status"] == "ok"
    assert facts["steps"] == "5" and facts["tool calls"] == "3" and facts["tokens"] == "1,234"
    assert facts["cost, US$"] == "0.0123" and facts["add_s"] == "0.150 m" and facts["n_extra"] == "2"
    assert facts["pa"] == "\N{EN DASH}"


def test_neighbours_are_linked_in_the_order_of_the_run(tmp_path):
    run, _, pages = write(tmp_path, [episode(), episode(), episode()])
    links = [{a["rel"]: a["href"] for a, _ in page.all("a") if "rel" in a} for page in pages]
    names = [f"../../episodes/run/{row['key']}.html" for row in run.rows]
    assert links == [{"next": names[1]}, {"prev": names[0], "next": names[2]}, {"prev": names[1]}]
    assert all(any(a.get("href") == "../../index.html" for a, _ in page.all("a")) for page in pages)


def test_what_an_agent_said_stands_before_its_calls(tmp_path):
    source = small.save_cases(tmp_path / "cases", [small.layout_case()])
    small.run_folder(tmp_path / "run", source, [episode()])
    (folder,) = (tmp_path / "run" / "episodes").iterdir()
    begin, *steps = (folder / "trace.jsonl").read_text().splitlines()
    said = json.dumps({"event": "said", "step": 2, "text": f"I move the chair.\n{HOSTILE}"})
    (folder / "trace.jsonl").write_text("\n".join([begin, steps[0], said, *steps[1:]]) + "\n")
    (run,) = load_runs([tmp_path / "run"])
    write_episode(run, run.rows[0], tmp_path / "report", page_of(run, run.rows[0]))
    page = Page(tmp_path / "report" / page_of(run, run.rows[0]))
    assert [text for _, text in page.all("pre", "said")] == [f"I move the chair.\n{HOSTILE}"]
    turns = [text for attributes, text in page.all("section", "turn")]
    assert ["I move the chair." in text for text in turns] == [number == 1 for number in range(len(turns))]


def test_text_of_a_model_never_becomes_markup_or_script(tmp_path):
    call = {"name": HOSTILE, "arguments": {"code": HOSTILE, HOSTILE: HOSTILE}}
    turns = [
        ([call], [{"name": HOSTILE, "text": HOSTILE, "images": []}]),
        (HOSTILE, [{"text": HOSTILE, "is_error": True}]),
        ([{"name": "execute_blender_code", "arguments": {"code": HOSTILE}}], [{"text": HOSTILE * 30}]),
    ]
    row = {"reason": HOSTILE, "metrics": {HOSTILE: HOSTILE}, "setting": {"budget": HOSTILE}}
    _, out, (page,) = write(tmp_path, [episode(turns=turns, row=row)], agent=HOSTILE)
    assert [attributes for attributes, _ in page.all("script")] == [{"src": "../../assets/viewer.js", "defer": None}]
    assert not [name for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]
    assert not [a for a, _ in page.all("img") if not (a["src"] or "").startswith("../../images/")]
    assert page.all("pre", "code")[0][1] == HOSTILE and page.all("p", "reason")[0][1] == HOSTILE
    for path in out.rglob("*.js"):
        assert "alert" not in path.read_text()


def test_a_picture_that_is_not_what_its_name_says_is_missing(tmp_path):
    source = small.save_cases(tmp_path / "cases", [small.layout_case()])
    small.run_folder(tmp_path / "run", source, [episode()])
    (folder,) = (tmp_path / "run" / "episodes").iterdir()
    right = hashlib.sha256(small.picture(10, 32)).hexdigest()
    (folder / "images" / f"{right}.png").write_bytes(small.picture(11, 32))
    page_text = folder / "images" / f"{hashlib.sha256(b'<svg>').hexdigest()}.png"
    page_text.write_bytes(b"<svg>")
    names = [right, page_text.stem, "../../../config.json", 7, "0" * 64]
    lines = (folder / "trace.jsonl").read_text().splitlines()
    step = json.loads(lines[2])
    step["results"][1]["images"] = names
    (folder / "trace.jsonl").write_text("\n".join([*lines[:2], json.dumps(step), *lines[3:]]))
    (run,) = load_runs([tmp_path / "run"])
    out = tmp_path / "report"
    write_episode(run, run.rows[0], out, page_of(run, run.rows[0]))
    page = Page(out / page_of(run, run.rows[0]))
    assert sum(text.count("A picture is missing.") for _, text in page.all("article")) == len(names)
    stored = {path.name for path in (out / "images").glob("*.png")}
    assert stored == {hashlib.sha256(small.picture(200)).hexdigest() + ".png"}


def test_the_scene_is_written_once_per_case_and_loaded_by_every_page(tmp_path):
    run, out, pages = write(tmp_path, [episode(), episode(submission=small.layout_submission((0, 0.5, 0)))])
    (truth,) = (out / "scenes").iterdir()
    views = [page.all("div", "viewer")[0][0] for page in pages]
    assert [view["data-truth"] for view in views] == [f"../../scenes/{truth.name}"] * 2
    scripts = [out / "episodes" / "run" / view["data-submission"] for view in views]
    assert len({path.read_text() for path in scripts}) == 2
    assert [path.stem for path in scripts] == [row["key"] for row in run.rows]
    assert len(list((out / "images").glob("*.webp"))) == 2


@pytest.mark.parametrize(
    ("case", "submission", "frames"),
    [
        (small.camera_case(), small.camera_submission(), 1),
        (small.articulated_case(), small.states(small.articulated_case().truth["frames"]), 32),
        (small.reconstruction_case(), small.layout_submission(), 1),
        (small.dynamic_case(), None, 144),
        (small.dynamic_case("dynamic_photoreal"), None, 144),
    ],
    ids=lambda value: getattr(value, "task", ""),
)
def test_every_task_has_its_page(tmp_path, case, submission, frames):
    _, out, (page,) = write(tmp_path, [episode(case=case, submission=submission)])
    notes = " ".join(text for _, text in page.all("p", "note"))
    assert ("Nothing was submitted" in notes) == (submission is None)
    assert "cannot" not in notes
    ((view, _),) = page.all("div", "viewer")
    assert ("data-submission" in view) == (submission is not None)
    text = (out / "episodes" / "run" / view["data-truth"]).resolve().read_text()
    assert json.loads(text.partition(",")[2].removesuffix(");\n"))["frames"] == frames


def test_without_its_case_or_its_record_the_rest_of_the_page_stands(tmp_path):
    other = small.reconstruction_case()
    _, out, (page,) = write(tmp_path, [episode()], cases=[other])
    assert "cannot be loaded any more" in page.all("p", "note")[0][1]
    assert not page.all("div", "viewer") and len(page.all("article")) == 6
    assert not list(out.rglob("*.webp"))


@pytest.mark.parametrize("broken", [b"", b"glTF", b"\0" * 5000, small.ROOM[:-200]])
def test_a_broken_submission_is_said_and_the_truth_is_shown(tmp_path, broken):
    source = small.save_cases(tmp_path / "cases", [small.layout_case()])
    small.run_folder(tmp_path / "run", source, [episode()])
    (folder,) = (tmp_path / "run" / "episodes").iterdir()
    (folder / "scene.glb").write_bytes(broken)
    (folder / "trace.jsonl").unlink()
    (run,) = load_runs([tmp_path / "run"])
    write_episode(run, run.rows[0], tmp_path, page_of(run, run.rows[0]))
    page = Page(tmp_path / page_of(run, run.rows[0]))
    notes = [text for _, text in page.all("p", "note")]
    assert "The trace cannot be read" in notes[0] and "The submission cannot be drawn" in notes[1]
    ((view, _),) = page.all("div", "viewer")
    assert "data-submission" not in view
    assert page.all("p", "soft")[1][1] == "No step is recorded."


def test_an_episode_without_a_folder_has_a_page(tmp_path):
    row = {"status": "infra_error", "score": None, "score_paper": None, "score_strict": None, "folder": None}
    row |= {"reason": "Blender did not start", "steps": None, "tool_calls": None, "metrics": {}, "setting": None}
    _, _, (page,) = write(tmp_path, [episode(row=row)])
    assert page.all("p", "note")[0][1] == "The run folder has no record of this episode."
    assert page.all("dd")[:3] == [({}, "\N{EN DASH}")] * 2 + [({"class": "status infra_error"}, "infra error")]


# ------------------------------------------------------------------------------------------------------------- timeline


def record_of(turns):
    events = [{"event": "step", "action": action, "results": results} for action, results in turns]
    return read_record(events, lambda name: None).turns


def test_the_timeline_has_a_mark_for_each_call_that_leads_to_it(tmp_path):
    _, _, (page,) = write(tmp_path, [episode()])
    ((_, _),) = page.all("svg", "timeline")
    marks = [a for a, _ in page.all("a") if "aria-label" in a]
    ids = {attributes["id"] for _, attributes, _ in page.elements if "id" in attributes}
    assert [a["aria-label"] for a in marks] == [
        "Step 1, call 1: get_scene_info",
        "Step 2, call 1: execute_blender_code",
        "Step 2, call 2: render_scene_view",
        "Step 3, call 1: no tool, error",
        "Step 4, call 1: set_object_pose, error",
        "Step 5, call 1: submit",
    ]
    assert {a["href"].removeprefix("#") for a in marks} <= ids
    shapes = {a["d"] for a, _ in page.all("path") if (a.get("class") or "").startswith("m-")}
    assert len(shapes) == 5  # Told apart without colour.


def test_the_end_of_an_episode_is_marked_whatever_ended_it():
    empty = record_of([([], [])])
    assert [(call.tool, call.kind) for call in empty[0].calls] == [("no call", "stop")]
    spent = timeline(record_of(TURNS[:2]), {}, budget=2)
    assert [mark.kind for mark in spent.marks] == ["read", "edit", "render", "stop"]
    assert spent.marks[-1].anchor == "step-2" and "budget of 2" in spent.marks[-1].label


def test_the_budget_is_said_to_be_spent_only_if_it_was(tmp_path):
    budgets = [{"setting": {"budget": budget}} for budget in (2, 3)]
    _, _, pages = write(tmp_path, [episode(turns=TURNS[:2], row=row) for row in budgets])
    said = [[a["aria-label"] for a, _ in page.all("a") if "budget" in a.get("aria-label", "")] for page in pages]
    assert said == [["Step 2: the budget of 2 steps is used up"], []]


def test_hidden_scores_stand_at_their_steps(tmp_path):
    checkpoints = {"2": {"paper": 10.0, "strict": 0.0}, "4": {"paper": 30.0, "strict": None}}
    _, _, (page,) = write(tmp_path, [episode(row={"checkpoints": checkpoints})])
    titles = [text for _, text in page.all("title") if ", after step" in text]
    assert titles == [
        "paper, after step 2: 10.0",
        "paper, after step 4: 30.0",
        "paper, after step 5: 50.0",
        "strict, after step 2: 0.0",
        "strict, after step 5: 25.0",
    ]
    strip = timeline(record_of(TURNS), {"paper": {2: 10.0, 5: 50.0}, "strict": {}}, None)
    (first, last) = strip.scores["paper"]
    # 40 points are 40 % of the height; a step's score stands below its marks.
    assert first[1] - last[1] == pytest.approx(0.4 * strip.chart, abs=0.2)
    assert [first[0], last[0]] == [strip.marks[1].x, strip.marks[5].x]
