"""The demo of a model that is kept fresh (fresh_bank.py): rows by date, the model, who trains it when, its files through the engine."""
