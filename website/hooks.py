"""What mkdocs calls: pages from the code and from the repository's root, and links.

Documents link to each other as files of the repository, so that they can be read there.
On the site the files of the root are pages of their own, and a link to source code is
its name alone.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.reference import pages

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "deploy/README.md": "deploy.md",
}
"""Files of the repository, and the pages that they are on the site."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is no file of the folder."""
    of_root = {
        ROOT_PAGES[name]: (ROOT / name).read_text("utf-8") for name in ROOT_PAGES
    }
    for path, text in (of_root | pages()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Links as they are on the site."""
    del config
    here = page.file.src_uri
    sources = {site: source for source, site in ROOT_PAGES.items()}
    place = posixpath.dirname(sources.get(here, f"docs/{here}"))

    def link(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, sharp, anchor = target.partition("#")
        if not path or ":" in path or here.startswith("reference/"):
            return match.group()
        goal = site_path(posixpath.normpath(posixpath.join(place, path)), files)
        if goal is None:
            return text
        back = posixpath.relpath(goal, posixpath.dirname(here) or ".")
        return f"{mark}[{text}]({back}{sharp}{anchor})"

    parts = _FENCE.split(markdown)  # code stays as it is
    return "".join(p if k % 2 else _LINK.sub(link, p) for k, p in enumerate(parts))


def site_path(path: str, files: Files) -> str | None:
    """Where a file of the repository is on the site; None if it is not there.

    Raises ValueError if there is no such file at all.
    """
    if not (ROOT / path).exists():
        raise ValueError(f"a link to {path}, which is not there")
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    inside = path.removeprefix("docs/")
    if inside != path:
        for each in (inside, f"{inside}/README.md"):
            if files.get_file_from_path(each) is not None:
                return each
    return None
