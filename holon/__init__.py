"""What users import: processing functions, dataflow, records, outputs, jobs and settings. Pure."""
