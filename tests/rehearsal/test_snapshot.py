"""How two looks at a host differ."""

from __future__ import annotations

from tests.rehearsal.snapshot import differences

SESSION, LISTENER = "sshd: root@notty", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"


def test_what_is_gone_and_what_is_new_is_told() -> None:
    before = {"processes": ["init", LISTENER], "files": {"etc/a": "-rw-r--r-- 1"}}
    after = {"processes": ["init", "python3"], "files": {"etc/a": "-rw-r--r-- 2"}}
    assert differences(before, before) == []
    assert differences(before, after) == [
        f'processes: gone: "{LISTENER}"',
        'processes: new: "python3"',
        'files: gone: ["etc/a", "-rw-r--r-- 1"]',
        'files: new: ["etc/a", "-rw-r--r-- 2"]',
    ]


def test_a_session_of_ssh_may_end_and_not_stay() -> None:
    for session in (SESSION, "sshd: root [priv]", "sshd-session: lab@notty"):
        assert differences({"processes": ["init", session]}, {"processes": ["init"]}) == []
        assert differences({"processes": ["init"]}, {"processes": ["init", session]}) == [
            f'processes: new: "{session}"'
        ]
