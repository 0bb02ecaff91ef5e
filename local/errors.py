"""The one error that the embedded stack raises on purpose."""

from __future__ import annotations


class Problem(Exception):
    """Something a person can mend. The text names the thing, the value found and the mend, in one line.

    The command line prints it without a traceback and ends with 1; anything else that is raised is a bug of
    ours and is shown with its traceback.
    """
