"""The front page of a report in a real browser, from disk: nothing else is loaded, and everything works by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sceneact_gym.bench.report import site
from sceneact_gym.bench.report.load import load_runs
from sceneact_gym.bench.report.summary import summarise
from sceneact_gym.tasks import TASKS
from tests.bench.browser import chromium, complaints, overflow, requested
from tests.bench.synthetic import result, write_run

EPISODES = 500


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a front page of 500 episodes; the pages of the episodes have tests of their own."""
    folder = tmp_path_factory.mktemp("report")
    folders = []
    for place, name in enumerate(("noop", "one", "two", "three")):
        rows = []
        for task in TASKS:
            for n in range(18):
                score = (37.0 * n + 11 * place) % 100
                at = {"10": {"paper": score / 2, "strict": score / 3}}
                rows.append(result(n, score, score / 2, task, checkpoints=at, usage={"model": "m" * 60}))
        rows[5] |= {"reason": "a long reason without end " * 9}
        made = write_run(folder / name, rows[:125], agent=name, tasks=list(TASKS), cases=18, checkpoints=[10])
        folders.append(made)
    runs = load_runs(folders)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "write_episode", lambda run, row, out, href: None)
        site.write_site(runs, summarise(runs), folder / "out", lambda line: None)
    return (folder / "out" / "index.html").as_uri()


@pytest.fixture(scope="module")
def desktop(index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile") / "p") as driver:
        driver.get(index)
        yield driver


def test_it_loads_from_disk_alone_and_draws_its_charts(desktop: Any) -> None:
    took = desktop.execute_script("const n = performance.getEntriesByType('navigation')[0]; return n.loadEventEnd")
    # Time depends on the machine, so that it is told and not judged.
    print(f"front page of {EPISODES} episodes: loaded after {took:.0f} ms")
    addresses = requested(desktop)
    assert len([one for one in addresses if one.startswith("file:")]) == 3
    assert all(one.startswith(("file:", "data:")) for one in addresses)
    assert complaints(desktop) == [] and overflow(desktop) <= 0
    boxes = desktop.execute_script(
        "return [...document.querySelectorAll('svg.chart')].map(s => { const b = s.getBoundingClientRect();"
        "return [b.width, b.height, s.querySelectorAll('.mark').length]; })"
    )
    # Per task the intervals, and a curve for each protocol.
    assert len(boxes) == 3 * len(TASKS)
    assert all(width > 200 and height > 100 and marks >= 4 for width, height, marks in boxes)


def test_sorting(desktop: Any) -> None:
    script = """
        const head = [...document.querySelectorAll('.board thead th')].find(h => h.textContent.startsWith('Overall'));
        head.querySelector('button').click();
        const rows = [...head.closest('table').tBodies[0].rows];
        return [head.getAttribute('aria-sort'), rows.map(row => Number(row.cells[head.cellIndex].dataset.v))];
    """
    order, values = desktop.execute_script(script)
    assert order == "descending" and values == sorted(values, reverse=True) and len(set(values)) == 4
    order, again = desktop.execute_script(script)
    assert order == "ascending" and again == values[::-1]


def test_filtering(desktop: Any) -> None:
    def shown(**fields: str) -> tuple[int, str]:
        desktop.execute_script(
            "const form = document.querySelector('.filter'); form.reset();"
            "for (const [name, value] of Object.entries(arguments[0])) form.elements[name].value = value;"
            "form.dispatchEvent(new Event('input'));",
            fields,
        )
        count = "return [...document.querySelectorAll('.episodes tbody tr')].filter(row => row.offsetHeight).length"
        return desktop.execute_script(count), desktop.find_element("css selector", ".filter output").text

    assert shown() == (EPISODES, f"{EPISODES} of {EPISODES} episodes")
    assert shown(run="two") == (125, "125 of 500 episodes")
    assert shown(run="two", task="Camera") == (18, "18 of 500 episodes")
    assert shown(text="LONG reason") == (4, "4 of 500 episodes")
    assert shown(text="camera-test-0003", run="one") == (1, "1 of 500 episodes")
    assert shown(status="ok")[0] == EPISODES
    assert shown(text="nothing like it")[0] == 0


def test_the_keyboard_reaches_everything(desktop: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    desktop.execute_script(
        "const form = document.querySelector('.filter'); form.reset(); form.dispatchEvent(new Event('input'));"
        "document.activeElement.blur(); window.scrollTo(0, 0);"
    )
    where = """
        const here = document.activeElement;
        const seen = getComputedStyle(here).outlineStyle;
        return [here.tagName, here.textContent.slice(0, 40), here.closest('table')?.className ?? '', seen];
    """

    def tab(until: Callable[[list[str]], bool]) -> list[list[str]]:
        reached: list[list[str]] = []
        while not reached or not until(reached[-1]):
            assert len(reached) < 60, reached
            ActionChains(desktop).send_keys(Keys.TAB).perform()
            reached.append(desktop.execute_script(where))
        return reached

    def follow(section: str) -> None:
        """Goes back to the top, and from there to a section by its link."""
        desktop.execute_script("document.querySelector('.home').focus()")
        tab(lambda here: here[1] == section)
        ActionChains(desktop).send_keys(Keys.ENTER).perform()

    first = tab(lambda here: here[0] == "BUTTON" and "board" in here[2])
    assert first[0][1] == "Skip to the content" and {"Leaderboard", "Methods"} <= {text for _, text, *_ in first}
    follow("Funnels")
    funnels = tab(lambda here: here[0] == "SUMMARY")
    follow("Episodes")
    episodes = tab(lambda here: here[0] == "A" and "episodes" in here[2])
    assert {"INPUT", "SELECT", "BUTTON"} <= {tag for tag, *_ in episodes}
    # Where the focus is can be seen.
    assert all(outline != "none" for *_, outline in first + funnels + episodes)


def test_a_phone(index: str, tmp_path: Path) -> None:
    with chromium(tmp_path / "p", width=390, height=844, dark=True) as driver:
        driver.get(index)
        assert driver.execute_script("return innerWidth") == 390
        assert overflow(driver) <= 0 and complaints(driver) == []
        light = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert light == "rgb(22, 23, 25)"
        sticking = driver.execute_script(
            "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.wide')"
            "&& e.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert sticking == 0
        charts = driver.execute_script("return [...document.querySelectorAll('svg.chart')].map(s => s.clientWidth)")
        assert all(250 < width <= 390 for width in charts)


def test_the_figures_are_there_without_a_script(index: str, tmp_path: Path) -> None:
    with chromium(tmp_path / "p") as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(index)
        assert len(driver.find_elements("css selector", ".episodes tbody tr")) == EPISODES
        assert not driver.find_element("css selector", ".filter").is_displayed()


def test_markup_that_gets_in_in_spite_of_escaping_does_nothing(desktop: Any) -> None:
    desktop.execute_script(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"x.png\" onerror=\"window.reached = 1\">');"
        "const made = document.createElement('script'); made.textContent = 'window.reached = 2';"
        "document.body.append(made); document.body.lastChild.previousSibling.dispatchEvent(new Event('error'));"
    )
    assert desktop.execute_script("return window.reached ?? null") is None
