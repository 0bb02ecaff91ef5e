"""Write the generated blocks of every page, and name the pages that changed."""

from __future__ import annotations

from local.reference.pages import PAGES, REPO, outdated


def main() -> None:
    for page, text in outdated(REPO, PAGES).items():
        page.write_text(text)
        print(page.relative_to(REPO))


if __name__ == "__main__":
    main()
