"""What is known of sources already: verified earlier, or planned under the same object key."""
