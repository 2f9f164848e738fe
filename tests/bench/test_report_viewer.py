"""The 3D view of an episode's page in a real browser, from disk."""

from __future__ import annotations

import base64
import io
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sceneact_gym.bench.report
from sceneact_gym.bench.report.episodes import write_episode
from sceneact_gym.bench.report.load import load_runs, page_of
from sceneact_gym.tasks import Submission
from tests.bench import small_cases as small
from tests.bench.browser import chromium, complaints, overflow, requested

DRIVER_MESSAGE = "GL Driver Message"
"""The software renderer's remark on its own speed when somebody takes a screenshot."""
STATES = np.repeat(small.articulated_case().truth["frames"][:1], 32, axis=0)
STATES[:, 8:, 0] += [[0.8 * small.opening(frame)] for frame in range(32)]
"""The drawer slides to the right instead of to the front."""
EPISODES = [
    (small.layout_case(), small.layout_submission((0, -1, 0))),
    (small.camera_case(), small.camera_submission()),
    (small.articulated_case(), small.states(STATES)),
    (small.dynamic_case(), Submission({}, {"scene.glb": small.dynamic_glb(0.05, side=1.0)})),
    (small.reconstruction_case(), None),
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """The pages of a report by task."""
    folder = tmp_path_factory.mktemp("report")
    source = small.save_cases(folder / "cases", [case for case, _ in EPISODES])
    turns = [
        (
            [{"name": "execute_blender_code", "arguments": {"code": "long = " + "'x' * 3 + " * 80}}],
            [{"text": "y" * 3000}],
        ),
        ([{"name": "submit", "arguments": {}}], [{"name": "submit"}]),
    ]
    episodes = [{"case": case, "submission": submission, "turns": turns} for case, submission in EPISODES]
    small.run_folder(folder / "run", source, episodes)
    (run,) = load_runs([folder / "run"])
    out = folder / "out"
    (out / "assets").mkdir(parents=True)
    for path in Path(sceneact_gym.bench.report.__file__).parent.iterdir():
        if path.suffix in (".js", ".css"):
            shutil.copyfile(path, out / "assets" / path.name)
    for row in run.rows:
        write_episode(run, row, out, page_of(run, row))
    return {row["task"]: out / page_of(run, row) for row in run.rows}


@pytest.fixture(scope="module")
def desktop(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), 1280, 620) as driver:
        yield driver


@pytest.fixture(scope="module")
def phone(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), 390, 844) as driver:
        yield driver


def wait(driver, script: str, seconds: float = 30.0):
    """Until a script's value is true; returns it."""
    end = time.monotonic() + seconds
    while not (value := driver.execute_script(f"return {script}")):
        assert time.monotonic() < end, f"{script} did not become true: {complaints(driver)}"
        time.sleep(0.05)
    return value


def show(driver, page: Path, state: str = "ready") -> None:
    driver.get(page.as_uri())
    driver.execute_script("document.querySelector('.viewer').scrollIntoView({block: 'start'})")
    wait(driver, f"document.querySelector('.viewer').dataset.state === {state!r}")
    if state == "ready":
        wait(driver, "document.querySelector('canvas').dataset.drawn > 0")


def picture(driver) -> np.ndarray:
    """What the view has drawn, (H, W, 3)."""
    data = driver.execute_script("return sceneact.picture()").partition(",")[2]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int)


def screen(driver) -> np.ndarray:
    """What is on the screen where the view is."""
    place = driver.execute_script(
        "const r = document.querySelector('canvas').getBoundingClientRect();"
        "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}"
    )
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": place, "captureBeyondViewport": True})
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")).astype(int)


def counts(pixels: np.ndarray) -> tuple[int, int, int]:
    """Pixels that are blue as the submission, orange as the truth, and of the grey of both."""
    r, g, b = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    neutral = (abs(r - g) < 6) & (abs(g - b) < 6) & (r < 175)
    # The axes are redder and bluer than both.
    blue, orange = (b > r + 70) & (g > b / 2), (r > b + 70) & (r > g + 25) & (g > r / 2)
    return int(blue.sum()), int(orange.sum()), int(neutral.sum())


def press(driver, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def button(driver, what: str):
    return driver.find_element("css selector", f"button[data-do={what}]")


@pytest.mark.parametrize("task", ["layout", "camera", "articulated", "dynamic"])
def test_both_sides_are_drawn_without_a_complaint_and_without_the_network(desktop, pages, task):
    complaints(desktop), requested(desktop)
    show(desktop, pages[task])
    for pixels in (picture(desktop), screen(desktop)):
        blue, orange, grey = counts(pixels)
        assert min(blue, orange) > 300, (blue, orange)
        assert task != "layout" or grey > 3000  # The table stands right.
    said = [line for line in complaints(desktop) if DRIVER_MESSAGE not in line]
    assert not said
    asked = requested(desktop)
    assert len([address for address in asked if address.endswith(".js")]) == 3
    assert all(address.startswith(("file:", "data:")) for address in asked), asked
    assert overflow(desktop) == 0


def test_a_submission_that_is_the_truth_is_grey_all_over(desktop, pages, tmp_path):
    shutil.copytree(pages["layout"].parents[2], tmp_path / "out")
    page = tmp_path / "out" / pages["layout"].relative_to(pages["layout"].parents[2])
    truth = next((tmp_path / "out" / "scenes").glob("layout-*.js")).read_text()
    page.with_suffix(".js").write_text(truth.replace('take("truth"', 'take("submission"'))
    show(desktop, page)
    blue, orange, grey = counts(picture(desktop))
    assert grey > 10_000 and blue + orange < 0.1 * grey


def test_buttons_hide_and_show_the_sides(desktop, pages):
    show(desktop, pages["layout"])
    both = counts(picture(desktop))
    button(desktop, "truth").click()
    assert button(desktop, "truth").get_attribute("aria-pressed") == "false"
    blue, orange, _ = counts(picture(desktop))
    assert blue > both[0] and orange < 300
    button(desktop, "truth").click()
    button(desktop, "submission").click()
    blue, orange, _ = counts(picture(desktop))
    assert orange > both[1] and blue < 300
    button(desktop, "submission").click()
    assert counts(picture(desktop)) == both
    button(desktop, "wireframe").click()
    wires = counts(picture(desktop))
    assert wires[0] > both[0] and 100 < wires[1] < both[1]


def test_everything_is_reached_and_moved_by_keys(desktop, pages):
    from selenium.webdriver.common.keys import Keys

    show(desktop, pages["dynamic"])
    reached = []
    desktop.execute_script("document.querySelector('#scene').tabIndex = -1; document.querySelector('#scene').focus()")
    for _ in range(12):
        press(desktop, Keys.TAB)
        reached.append(
            desktop.execute_script("const a = document.activeElement; return a.dataset.do || a.type || a.localName")
        )
        if reached[-1] == "canvas":
            break
    assert reached == ["submission", "truth", "wireframe", "above", "reset", "play", "range", "canvas"]
    first = picture(desktop)
    for key, back in ((Keys.ARROW_LEFT, Keys.ARROW_RIGHT), (Keys.ARROW_UP, Keys.ARROW_DOWN), ("+", "-")):
        press(desktop, key)
        moved = picture(desktop)
        assert (moved != first).any(axis=-1).mean() > 0.02, key
        press(desktop, back)
        assert (picture(desktop) != first).any(axis=-1).mean() < 0.01, key
    press(desktop, Keys.ARROW_LEFT, "+", "0")
    assert (picture(desktop) == first).all()


def test_marks_of_the_timeline_are_reached_by_keys_lead_to_their_calls_and_can_be_skipped(desktop, pages):
    from selenium.webdriver.common.keys import Keys

    desktop.get(pages["layout"].as_uri())
    desktop.execute_script(
        "document.querySelector('#timeline').tabIndex = -1; document.querySelector('#timeline').focus()"
    )
    seen = []
    for _ in range(4):
        press(desktop, Keys.TAB)
        seen.append(
            desktop.execute_script("const a = document.activeElement; return a.getAttribute('aria-label') || a.text")
        )
    assert seen[0] == "Skip the timeline"
    assert seen[2:] == ["Step 1, call 1: execute_blender_code", "Step 2, call 1: submit"]
    press(desktop, Keys.ENTER)
    assert desktop.execute_script("return document.querySelector(':target').id") == "call-2-1"


def test_frames_are_chosen_by_the_slider_and_played(desktop, pages):
    from selenium.webdriver.common.keys import Keys

    show(desktop, pages["dynamic"])
    assert desktop.find_element("tag name", "output").text == "frame 73 of 144"
    first = picture(desktop)
    slider = desktop.find_element("css selector", "input[type=range]")
    slider.send_keys(Keys.HOME)
    assert desktop.find_element("tag name", "output").text == "frame 1 of 144"
    assert (picture(desktop) != first).any(axis=-1).mean() > 0.005
    button(desktop, "play").click()
    wait(desktop, "Number(document.querySelector('output').textContent.split(' ')[1]) > 3")
    button(desktop, "play").click()
    at = desktop.find_element("tag name", "output").text
    time.sleep(0.2)
    assert desktop.find_element("tag name", "output").text == at
    show(desktop, pages["articulated"])
    slider = desktop.find_element("css selector", "input[type=range]")
    opened = counts(picture(desktop))
    slider.send_keys(Keys.HOME)
    closed = counts(picture(desktop))
    # In frame 1 both are shut.
    assert min(opened[:2]) > 500 and sum(closed[:2]) < 0.2 * sum(opened[:2])
    show(desktop, pages["layout"])
    assert not desktop.find_element("css selector", ".viewer-time").is_displayed()


def test_the_wheel_and_dragging_move_the_view(desktop, pages):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    show(desktop, pages["layout"])
    first = picture(desktop)
    canvas = desktop.find_element("tag name", "canvas")
    ActionChains(desktop).move_to_element(canvas).click_and_hold().move_by_offset(80, 20).release().perform()
    turned = picture(desktop)
    assert (turned != first).any(axis=-1).mean() > 0.02
    before = desktop.execute_script("return scrollY")
    ActionChains(desktop).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -200).perform()
    wait(desktop, "Number(document.querySelector('canvas').dataset.drawn) > 0")
    assert (picture(desktop) != turned).any(axis=-1).mean() > 0.02
    assert desktop.execute_script("return scrollY") == before


def test_a_phone_shows_all_of_it_without_scrolling_sideways(phone, pages):
    for task in ("layout", "dynamic"):
        show(phone, pages[task])
        assert overflow(phone) == 0
        assert min(counts(picture(phone))[:2]) > 100
        height, width = picture(phone).shape[:2]
        assert 300 < width < 390 and height < 844
    assert not [line for line in complaints(phone) if DRIVER_MESSAGE not in line]


def test_two_fingers_zoom(phone, pages):
    show(phone, pages["layout"])
    first = sum(counts(picture(phone)))
    box = phone.execute_script("const r = document.querySelector('canvas').getBoundingClientRect(); return [r.x, r.y]")

    def touch(kind: str, spread: int) -> None:
        points = [{"x": box[0] + 180 + side * spread, "y": box[1] + 200, "id": side} for side in (-1, 1)]
        phone.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if spread else []})

    touch("touchStart", 80)
    for spread in (70, 60, 50, 40):
        touch("touchMove", spread)
    touch("touchEnd", 0)
    # Twice as far away everything takes a quarter of the pixels.
    assert 0.2 * first < sum(counts(picture(phone))) < 0.35 * first


def test_without_webgl_a_sentence_says_so_and_the_pictures_remain(phone, pages):
    script = {"source": "HTMLCanvasElement.prototype.getContext = () => null"}
    added = phone.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        show(phone, pages["layout"], state="none")
    finally:
        phone.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    assert "WebGL" in phone.find_element("css selector", ".viewer-message").text
    assert not phone.find_element("tag name", "canvas").is_displayed()
    assert not phone.find_element("css selector", ".viewer-bar").is_displayed()
    phone.execute_script("document.querySelector('.turntable').scrollIntoView()")
    wait(phone, "document.querySelector('.turntable img').naturalWidth === 1200")


def test_a_missing_scene_is_said(phone, pages, tmp_path):
    shutil.copytree(pages["layout"].parents[2], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "scenes")
    show(phone, tmp_path / "out" / pages["layout"].relative_to(pages["layout"].parents[2]), state="failed")
    assert "is missing" in phone.find_element("css selector", ".viewer-message").text
    complaints(phone)


def test_without_a_submission_the_truth_is_drawn(phone, pages):
    show(phone, pages["reconstruction"])
    blue, orange, _ = counts(picture(phone))
    assert orange > 1000 and blue < 300
    assert not phone.find_elements("css selector", "button[data-do=submission]")
