"""samplewise"""
