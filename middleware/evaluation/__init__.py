"""The paper's evaluation (DEBS'13, section 5) from runs made then and there: modes, runs, measures, figures, report."""
