"""Steps the model: sequences, scheduler, the synchronous core and the thread around it. No torch in
here.
"""
