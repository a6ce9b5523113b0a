"""The LS-SVM with Huber's loss: its active set, and bounds on the answer."""
