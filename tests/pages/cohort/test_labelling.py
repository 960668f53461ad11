"""Label: one's own notes, one at a time, and the recall and precision that follow."""

from __future__ import annotations

import pytest

from core.evaluation.detection.own_labels import sampled
from core.evaluation.wording import percent
from core.phi.detector.engine import WITH_TAGGER
from core.runs.store import Workspace
from core.runs.uploads.records import uploads
from pages.parts.uploads.files import LABELS_OF
from tests.pages.uploads.test_upload_form import cohort, used  # noqa: F401
from tests.pages.visit import visit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("checks_here")]


def finished(app):
    app.button(key="label_done").click().run()
    assert not app.exception
    return app


def test_a_missed_word_and_a_false_find_change_recall_and_precision(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    app.session_state["view"] = "Label"
    app.run()
    assert not app.exception and WITH_TAGGER in "\n".join(caption.value for caption in app.caption).replace("\\", "")
    (upload,) = uploads(tmp_path)
    notes = sampled(Workspace(tmp_path).corpus(upload.spec).notes, upload.digest)
    assert len(notes) == 20
    found = len(notes[0].found)
    word = next(word for word in notes[0].text.split() if word.isalpha() and notes[0].places_of(word, "place"))
    places = len(notes[0].places_of(word, "place"))

    app.text_input(key=f"label_words-{upload.digest}-0").input("no such words")
    next(button for button in app.button if button.label == "Add").click().run()
    assert "not in the note" in app.error[0].value
    app.text_input(key=f"label_words-{upload.digest}-0").input(word)
    next(button for button in app.button if button.label == "Add").click().run()
    assert len(app.multiselect(key=f"label_added-{upload.digest}-0-{places}").value) == places
    finished(app)
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Recall on your notes"] == percent(found / (found + places))
    assert shown["Precision on your notes"] == (percent(1.0) if found else "–"), "which notes are drawn is by chance"
    assert "**Note 2 of 20**" in "\n".join(one.value for one in app.markdown)

    with_finds = next(number for number, note in enumerate(notes) if number and note.found)
    for _ in range(1, with_finds):
        finished(app)
    wrong = app.multiselect(key=f"label_wrong-{upload.digest}-{with_finds}")
    wrong.set_value([wrong.options[0]] if isinstance(wrong.options[0], int) else [0]).run()
    finished(app)
    shown = {metric.label: metric.value for metric in app.metric}
    total = found + len(notes[with_finds].found)
    assert shown["Precision on your notes"] == percent((total - 1) / total)


def test_too_many_missed_words_are_refused_in_a_sentence(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    app.session_state["view"] = "Label"
    app.run()
    (upload,) = uploads(tmp_path)
    app.text_input(key=f"label_words-{upload.digest}-0").input("word " * 41)
    next(button for button in app.button if button.label == "Add").click().run()
    assert not app.exception and [one.value for one in app.error] == ["Add at most 200 characters at once."]


def test_no_text_of_a_note_is_kept_in_the_session_and_deletion_forgets_the_labels(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    app.session_state["view"] = "Label"
    app.run()
    finished(app)
    (upload,) = uploads(tmp_path)
    key = f"{LABELS_OF}{upload.digest}"
    kept = repr(app.session_state[key])
    text = sampled(Workspace(tmp_path).corpus(upload.spec).notes, upload.digest)[0].text
    assert all(word not in kept for word in text.split() if len(word) > 8)
    app.button(key=f"delete-{upload.digest}").click().run()
    assert key not in app.session_state


def test_what_is_typed_about_real_notes_does_not_get_into_the_address(cohort):  # noqa: F811
    def in_link(app, key):
        return app.text_input(key=key).proto.query_param_key  # the browser puts the value there

    real, generated = used(cohort()), visit("cohort", cohort="tiny")
    for key in ("patient", "code", "words"):
        assert (in_link(real, key), in_link(generated, key)) == ("", key)
