"""What people are told of a job of a story, checked: whole sentences, each with the records that prove it."""

from tests.kits.log_builder import Story

from bailiff_core.explain import explain_job
from bailiff_core.records import Record, decisions
from bailiff_core.records.subjects import jobs_of


def explained(story: Story, job: str) -> dict[str, list[str]]:
    """The sentences about the job, by question."""
    sections = explain_job(story.state, story.job(job), history_of(story, job))
    for section in sections:
        assert section.sentences, section.question
        for sentence in section.sentences:
            assert sentence.text.endswith("."), sentence
            assert ".." not in sentence.text, sentence
            assert sentence.seqs, sentence
            assert all(0 <= seq < len(story.records) for seq in sentence.seqs)
    return {section.question: [sentence.text for sentence in section.sentences] for section in sections}


def sentences(story: Story, job: str) -> list[str]:
    """All sentences about the job."""
    return [text for texts in explained(story, job).values() for text in texts]


def history_of(story: Story, job: str) -> list[Record]:
    """The records about the job, and the requests that were answered about it."""
    answered = {
        record.data.request
        for record in story.records
        if isinstance(record.data, decisions.PreemptionDecided | decisions.PreemptionRefused) and job in jobs_of(record)
    }
    return [record for record in story.records if job in jobs_of(record) or record.seq in answered]
