"""What has changed in a session, as rows of the schema, and how these get into a database."""
