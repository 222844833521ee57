"""The list of modules is what their docstrings say."""

from tools.list_modules import LIST, page


def test_the_list_of_modules_is_up_to_date():
    assert LIST.read_text(encoding="utf-8") == page(), "run: python tools/list_modules.py"
