"""From text to statements: the grammar, the trees it makes, and the rewriting of what SQL says in one statement."""
