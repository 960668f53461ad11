"""Parts of the Membership page: ROC curves with the guarantee's ceiling, histograms, all attacks."""
