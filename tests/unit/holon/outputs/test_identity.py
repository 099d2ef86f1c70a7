"""Runs of identities: what a reader of an output partition learns about who writes there."""

from __future__ import annotations

from holon.outputs.identity import IdentityStamp, OutputId, Track, ascents, place_of


def header(
    position: int, n: int = 0, partition: int = 3, track: Track = Track.WINDOW, job: str = "j", inc: int = 2
) -> bytes:
    return OutputId(job, inc, partition, track, position, n).to_bytes()


def test_the_place_in_a_header_is_what_was_stamped() -> None:
    for position in (-5, 0, 7, 2**60):
        assert place_of(IdentityStamp("job", 1, 2, Track.RECORD)(position, 4)) == (0, (position, 4))
    assert place_of(header(9, 1)) == (1, (9, 1))


def test_what_ascends_is_one_run_and_what_was_written_again_begins_another() -> None:
    headers = [header(10), header(10, 1), header(20), header(10), header(20), header(20), header(-3)]
    assert ascents(headers, "j", 2) == {
        (3, 1): [((10, 0), (20, 0)), ((10, 0), (20, 0)), ((20, 0), (20, 0)), ((-3, 0), (-3, 0))]
    }


def test_sources_and_tracks_are_told_apart_and_what_others_wrote_is_passed_over() -> None:
    mine = [header(10), header(5, partition=4), header(1, track=Track.RECORD)]
    foreign = [header(99, job="other"), header(99, inc=1), b"", b"\x09" * 30]
    assert ascents([*mine, *foreign], "j", 2) == {
        (3, 1): [((10, 0), (10, 0))],
        (4, 1): [((5, 0), (5, 0))],
        (3, 0): [((1, 0), (1, 0))],
    }
