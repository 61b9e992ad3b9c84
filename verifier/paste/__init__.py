"""How a paste becomes a Problem: text and ast only. Nothing is executed and torch is not imported."""
