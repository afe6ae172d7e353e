"""Files that tenants upload, and the job that examines each."""
