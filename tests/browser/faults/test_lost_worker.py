"""Train in a browser on an existing scheduler (PHILAB_SCHEDULER): no worker yet, one that is killed, one that ends."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from core.jobs.work import Work
from core.runs.events import read_events
from core.runs.store import Workspace
from tests.browser.served import ROOT, TRAINED, WAIT, finished_run, no_traceback, serving, settled, to_entry, type_in
from tests.few_claims import IN_WORKERS
from tests.held_work import PLACE, Held
from tests.jobs.dask_processes import scheduler_process, until, worker_process

pytestmark = pytest.mark.browser

SHORT = 2  # epochs; the training waits in the first one until its worker is killed
LONG = 300  # it is not over before it is made to wait for Cancel


@pytest.fixture
def own_data(data: Path, tmp_path: Path) -> Path:
    """A copy: other tests count the runs of the shared folder."""
    return Path(shutil.copytree(data, tmp_path / "data"))


@pytest.fixture
def scheduled(own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Addresses of a scheduler without workers and of an app that was given it."""
    with scheduler_process(tmp_path) as (scheduler, _):
        monkeypatch.setenv("PHILAB_SCHEDULER", scheduler)
        with serving(own_data, tmp_path / "log.txt") as address:
            yield scheduler, address


def train(page: Page, address: str, seed: int, epochs: int) -> None:
    """Press Train for a small run of this seed."""
    page.goto(f"{address}/train?cohort=tiny&training_seed={seed}")
    settled(page)
    for label, value in (("Epochs", str(epochs)), ("Batch size", "32")):
        type_in(page, label, value)
    page.locator(".st-key-train button").click()


def to_page(page: Page, title: str) -> None:
    """Go by the menu, in the same session.

    While nothing is asked of Train the tests are elsewhere: it draws the queue every second, which costs more than a
    training. That an open page sees its run's end is tested in tests/browser/test_newcomer.py.
    """
    to_entry(page, title)
    expect(page.get_by_role("heading", level=1, name=title)).to_be_visible(timeout=WAIT)
    settled(page)


def step(work: Work) -> int:
    """The last step in its event log."""
    return max((event["step"] for event in read_events(work.folder) if event["event"] == "step"), default=0)


def test_a_lost_worker_and_cancel_look_as_with_the_apps_own(
    tab: Page, scheduled: tuple[str, str], own_data: Path, tmp_path: Path
) -> None:
    scheduler, address = scheduled
    workspace = Workspace(own_data, shared=())
    before, jobs = {run.id for run in workspace.runs()}, {work.id for work in Work.asked_for(workspace)}
    held = Held(tmp_path / "held")
    held.folder.mkdir()
    more = {**IN_WORKERS, PLACE: str(held.folder)}

    train(tab, address, 41, SHORT)
    expect(tab.get_by_text("Jobs wait until a worker can take them.", exact=False).first).to_be_visible(timeout=WAIT)
    (work,) = [work for work in Work.asked_for(workspace) if work.id not in jobs]
    assert step(work) == 0
    to_page(tab, "Glossary")
    with held.at(work.run_id), worker_process(scheduler, "first", tmp_path, str(ROOT), more=more) as (_, process):
        until(lambda: step(work) > 0, TRAINED // 1_000)
        to_page(tab, "Train")
        expect(tab.locator("[data-testid=stProgress]").first).to_be_visible(timeout=WAIT)
        to_page(tab, "Glossary")
        process.send_signal(signal.SIGKILL)
    assert work.finished() is None
    with worker_process(scheduler, "second", tmp_path, str(ROOT), more=more):
        run = finished_run(own_data, lambda run: run.id not in before and run.id == work.run_id)
        assert run.privacy is not None
        to_page(tab, "Train")
        expect(tab.locator(f"a[href*='right={run.id}']").first).to_be_visible(timeout=TRAINED)

        train(tab, address, 42, LONG)
        until(lambda: len(set(Work.asked_for(workspace)) - {work}) > len(jobs))
        (other,) = [each for each in Work.asked_for(workspace) if each.id not in jobs]
        with held.at(other.run_id):
            to_page(tab, "Glossary")
            until(lambda: step(other) > 0, TRAINED // 1_000)
            to_page(tab, "Train")
            tab.get_by_role("button", name="Cancel").first.click()
            until(lambda: not other.folder.exists())
        assert other.finished() is None
        expect(tab.get_by_text("Cancelled.", exact=True).first).to_be_visible(timeout=WAIT)
    no_traceback(tab)
