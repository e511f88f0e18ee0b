"""nonparametric"""
