def run_all():
    return []
