"""The command ``sluice``.

What comes in: a command line; ``app`` declares every command with Typer; the file of a command's name does
the work. What goes out: a table or, with ``--json``, one document on stdout, progress on stderr, and an
exit code (``base``). The commands of this package need the systems only, wherever they run: ``load`` and
``change`` trigger a DAG through Airflow's REST API (``airflow_api``) and show its run (``runs``); ``sql``,
``batches``, ``trace`` and ``put`` work with a role's rights (``installation``); ``new-stream`` writes a
stream's folder. Commands of the embedded stack are the checkout's: it names its module in SLUICE_COMMANDS.
It promises that a command that fails says what failed, the value found and the fix in one line, and never
ends with 0. Start with ``app``.
"""
